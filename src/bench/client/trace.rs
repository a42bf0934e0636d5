//! What was seen of an exchange becomes its record.

use std::time::{Instant, SystemTime};

use hyper::body::Incoming;
use hyper::header::HeaderMap;

use super::connect::ConnectStamps;
use super::connection::{Connection, Mark};
use super::endpoint::Keep;
use super::reading::Reading;
use super::retry_after::retry_after;
use crate::measure::trace::{
    Connection as ConnectionTrace, Outcome, Phase, PromptUse, RequestTrace, StampSource, Stamps,
};

/// What a request is called before it is sent.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Ticket {
    pub(in crate::bench) index: u32,
    pub(in crate::bench) prompt_index: u32,
    pub(in crate::bench) prompt: PromptUse,
    pub(in crate::bench) worker: u32,
    pub(in crate::bench) phase: Phase,
    /// The level's start.
    pub(in crate::bench) epoch: Instant,
    /// Open loop: when it was meant to be sent.
    pub(in crate::bench) intended_at: Option<Instant>,
}

/// What was seen of an exchange, filled in as it goes, so that a failure keeps what came before.
pub(super) struct Seen {
    pub(super) connect: ConnectStamps,
    pub(super) connection: ConnectionTrace,
    pub(super) written_at: Option<Instant>,
    pub(super) head_at: Option<Instant>,
    /// The read that brought the end of the body.
    pub(super) end_at: Option<Instant>,
    pub(super) status: Option<u16>,
    pub(super) headers: Option<HeaderMap>,
    pub(super) reading: Reading,
    /// The body, as long as its end was not reached.
    pub(super) unread: Option<Incoming>,
    /// The body was read to its end.
    pub(super) complete: bool,
    /// The server has said that it closes the connection after this answer.
    pub(super) close_announced: bool,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self {
            connect: ConnectStamps::default(),
            connection: ConnectionTrace::default(),
            written_at: None,
            head_at: None,
            end_at: None,
            status: None,
            headers: None,
            reading: Reading::new(),
            unread: None,
            complete: false,
            close_announced: false,
        }
    }

    /// The kept connection had died: `when` says when that was found. A fresh one replaces it.
    pub(super) fn note_stale(&mut self, when: &str) {
        self.connection.stale = true;
        self.connection.reused = false;
        let note = format!("the server had closed the kept connection: found {when}, replaced");
        self.reading.answer.notes.push(note);
    }

    /// Takes over what the socket knows of a request that was sent at `since`, when the connection
    /// stood at `before`. To be called when the head of the answer is there: what is written later
    /// (HTTP/2 acknowledges what it reads) is no part of the request.
    pub(super) fn note_sent(&mut self, connection: &Connection, before: Mark, since: Instant) {
        let wire = &connection.wire;
        self.connection.request_bytes = wire.bytes_out.get() - before.bytes_out;
        let has_read = wire.read_at.get().is_some_and(|at| at >= since);
        let written = if has_read { &wire.written_before_read } else { &wire.written_at };
        self.written_at = written.get().filter(|at| *at >= since);
    }

    /// The record of the exchange. `sent_at` is when it was sent, `failed_at` when it was found to
    /// have failed.
    pub(super) fn into_trace(
        mut self,
        ticket: Ticket,
        sent_at: Instant,
        failed_at: Instant,
        outcome: Outcome,
        keep: Keep,
    ) -> RequestTrace {
        let since = |at: Instant| at.saturating_duration_since(sent_at);
        let answer = &mut self.reading.answer;
        let ended_at = self.end_at.filter(|_| outcome.is_ok()).unwrap_or(failed_at);
        let stamps = Stamps {
            dns: self.connect.dns.map(since),
            connected: self.connect.connected.map(since),
            tls: self.connect.tls.map(since),
            written: self.written_at.map(since),
            head: self.head_at.map(since),
            first_text: answer.first_text.map(since),
            first_answer: answer.first_answer.map(since),
            last_text: answer.last_text.map(since),
            end: since(ended_at),
            source: StampSource::User,
        };
        let mut tokens = answer.tokens();
        let (server, n_cached) = answer.server_times(self.headers.as_ref(), stamps.first_text);
        tokens.n_cached = tokens.n_cached.or(n_cached);
        let (text_sha256, text) = answer.text(keep);
        RequestTrace {
            index: ticket.index,
            prompt_index: ticket.prompt_index,
            prompt: ticket.prompt,
            worker: ticket.worker,
            start: sent_at.saturating_duration_since(ticket.epoch),
            lateness: ticket.intended_at.map(|at| sent_at.saturating_duration_since(at)),
            phase: ticket.phase,
            outcome,
            stamps,
            tokens,
            gaps_us: std::mem::take(&mut answer.gaps_us),
            server,
            connection: self.connection,
            finish_reason: answer.finish_reason.take(),
            http_status: self.status,
            retry_after: self.headers.as_ref().and_then(|h| retry_after(h, SystemTime::now())),
            pause: None, // The worker knows.
            text_sha256,
            text,
            model: answer.model.take(),
            notes: std::mem::take(&mut answer.notes),
        }
    }
}
