//! What is read of one answer: from the bytes of an event stream to tokens, texts and gaps.
//!
//! No I/O and no clock: each piece of bytes comes with the stamp of the read that brought it. The
//! hot path is [`Answer::take_chunk`]; it allocates only where text or a list of gaps has to grow.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use super::endpoint::Keep;
use super::failure::Failure;
use crate::api::account::Account;
use crate::api::chunk::{Chunk, Counts, Piece};
use crate::api::mended;
use crate::api::sse::{DONE, Decoder, Item};
use crate::api::stream_error::{named_error, names_an_error, stray_error};
use crate::bench::prompts::hex;
use crate::measure::trace::{FailureClass, ServerTimes, TokenSource, Tokens};

/// The longest answer that is kept, in bytes of text: no model's output comes near it.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Gaps for which memory is taken before the first one arrives.
const GAPS_EXPECTED: usize = 256;

/// One read of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadStamp {
    /// When its bytes were there.
    pub(super) at: Instant,
    /// Its number on this connection.
    pub(super) number: u64,
}

/// The reading of one event stream.
#[derive(Debug)]
pub(super) struct Reading {
    decoder: Decoder,
    pub(super) answer: Answer,
}

/// What an event stream has said so far.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) first_text: Option<Instant>,
    pub(super) first_answer: Option<Instant>,
    pub(super) last_text: Option<Instant>,
    pub(super) gaps_us: Vec<u32>,
    pub(super) finish_reason: Option<String>,
    pub(super) model: Option<String>,
    pub(super) notes: Vec<String>,
    n_chunks: u64,
    n_first: Option<u64>,
    coalesced_reads: u64,
    parse_errors: u64,
    counts: Counts,
    accounts: Accounts,
    /// The last read that brought text, and how many events with text it has brought.
    last_read: (Option<u64>, u64),
    reasoning: String,
    text: String,
    arguments: String,
    done: bool,
    failure: Option<Failure>,
}

/// The server's own accounts of the time, as they were sent: the last of each kind.
#[derive(Debug, Default)]
struct Accounts {
    timings: Option<Box<serde_json::value::RawValue>>,
    perf_metrics: Option<Box<serde_json::value::RawValue>>,
    metrics: Option<Box<serde_json::value::RawValue>>,
}

impl Reading {
    pub(super) fn new() -> Self {
        let answer = Answer {
            first_text: None,
            first_answer: None,
            last_text: None,
            gaps_us: Vec::with_capacity(GAPS_EXPECTED),
            finish_reason: None,
            model: None,
            notes: Vec::new(),
            n_chunks: 0,
            n_first: None,
            coalesced_reads: 0,
            parse_errors: 0,
            counts: Counts::default(),
            accounts: Accounts::default(),
            last_read: (None, 0),
            reasoning: String::new(),
            text: String::new(),
            arguments: String::new(),
            done: false,
            failure: None,
        };
        Self { decoder: Decoder::default(), answer }
    }

    /// Takes the next bytes of the stream. An error inside it is the request's failure.
    pub(super) fn push(&mut self, bytes: &[u8], read: ReadStamp) -> Result<(), Failure> {
        let answer = &mut self.answer;
        let pushed = self.decoder.push(bytes, |item| answer.take_item(item, read));
        answer.failure.take().map_or(Ok(()), Err)?;
        pushed.map_err(|error| Failure::protocol(error.to_string()))
    }

    /// The body is complete: was it an answer?
    pub(super) fn finish(&mut self, read: ReadStamp) -> Result<(), Failure> {
        let answer = &mut self.answer;
        self.decoder.finish(|item| answer.take_item(item, read));
        answer.failure.take().map_or(Ok(()), Err)?;
        if answer.n_chunks == 0 {
            return Err(Failure::new(FailureClass::Empty, "the stream ended without any text"));
        }
        if answer.finish_reason.is_none() {
            let text = "the stream ended without a finish reason";
            return Err(Failure::new(FailureClass::Truncated, text));
        }
        if !answer.done {
            answer.notes.push("no [DONE] after the finish reason".to_owned());
        }
        Ok(())
    }
}

impl Answer {
    fn take_item(&mut self, item: Item<'_>, read: ReadStamp) {
        if self.failure.is_some() || self.done {
            return; // What came first wins; after [DONE] nothing is part of the answer.
        }
        match item {
            Item::Event { name, data } if !name.is_empty() => {
                let name = String::from_utf8_lossy(name);
                if names_an_error(&name) {
                    self.fail(&named_error(&name, data));
                } else {
                    self.take_data(data, read);
                }
            }
            Item::Event { data, .. } => self.take_data(data, read),
            Item::Stray(json) => match stray_error(json) {
                Some(error) => self.fail(&error),
                None => self.parse_errors += 1,
            },
        }
    }

    fn take_data(&mut self, data: &[u8], read: ReadStamp) {
        match Chunk::parse(data) {
            Ok(chunk) => self.take_chunk(&chunk, read),
            Err(_) if data.trim_ascii().is_empty() => {} // A heartbeat.
            Err(_) if data.trim_ascii() == DONE.as_bytes() => self.done = true,
            Err(_) => self.take_odd_data(data, read),
        }
    }

    fn take_chunk(&mut self, chunk: &Chunk<'_>, read: ReadStamp) {
        let chars_before = self.n_bytes();
        let answer_before = self.text.len() + self.arguments.len();
        chunk.each_piece(|piece| match piece {
            Piece::Reasoning(text) => self.reasoning.push_str(&text),
            Piece::Answer(text) => self.text.push_str(&text),
            Piece::Arguments(text) => self.arguments.push_str(&text),
        });
        let counts = chunk.counts();
        if self.n_bytes() > chars_before {
            if self.n_chunks == 0 {
                self.n_first = counts.and_then(|counts| counts.output).or_else(|| chunk.n_tokens());
            }
            self.note_text(read);
        }
        if self.first_answer.is_none() && self.text.len() + self.arguments.len() > answer_before {
            self.first_answer = Some(read.at);
        }
        if let Some(counts) = counts {
            self.counts.merge(counts);
        }
        if let Some(reason) = chunk.finish_reason() {
            self.finish_reason = Some(reason.to_owned());
        }
        if self.model.is_none() {
            self.model = chunk.model.get().map(str::to_owned);
        }
        self.accounts.keep(chunk);
        if let Some(error) = chunk.error() {
            self.fail(&error);
        } else if self.n_bytes() > TEXT_BYTES_MAX {
            let text = format!("the answer is longer than {TEXT_BYTES_MAX} bytes");
            self.failure = Some(Failure::protocol(text));
        }
    }

    /// An event that a strict reader refuses. The standard reads a stream with replacement
    /// characters for what is no UTF-8, and some JSON is plain enough to be mended: text is never
    /// given up for it. What is no JSON by its grammar is counted in any case.
    fn take_odd_data(&mut self, data: &[u8], read: ReadStamp) {
        let text = String::from_utf8_lossy(data);
        if let (Cow::Owned(_), Ok(chunk)) = (&text, Chunk::parse(text.as_bytes())) {
            self.note_once("invalid UTF-8 in the stream");
            return self.take_chunk(&chunk, read);
        }
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        let mended = mended::json(&text).unwrap_or_default();
        if let Ok(chunk) = Chunk::parse(mended.as_bytes()) {
            self.parse_errors += u64::from(!is_json);
            self.note_once("JSON that had to be mended");
            self.take_chunk(&chunk, read);
        } else if let Some(error) = stray_error(mended.as_bytes()) {
            self.fail(&error);
        } else {
            self.parse_errors += 1;
        }
    }

    fn note_once(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// An event with text has arrived.
    fn note_text(&mut self, read: ReadStamp) {
        self.n_chunks += 1;
        if let Some(last) = self.last_text {
            self.gaps_us.push(micros(read.at.saturating_duration_since(last)));
        }
        self.first_text.get_or_insert(read.at);
        self.last_text = Some(read.at);
        let (last_read, n_in_read) = &mut self.last_read;
        if *last_read != Some(read.number) {
            (*last_read, *n_in_read) = (Some(read.number), 0);
        }
        *n_in_read += 1;
        if *n_in_read == 2 {
            self.coalesced_reads += 1;
        }
    }

    fn fail(&mut self, error: &str) {
        self.failure = Some(Failure::new(FailureClass::ErrorEvent, error));
    }

    fn n_bytes(&self) -> usize {
        self.reasoning.len() + self.text.len() + self.arguments.len()
    }

    /// Token counts, and where they are from.
    pub(super) fn tokens(&self) -> Tokens {
        let (n_out, source) = match (self.counts.output, self.n_chunks) {
            (Some(n), _) => (Some(n), TokenSource::Usage),
            (None, 0) => (None, TokenSource::Unknown),
            (None, n) => (Some(n), TokenSource::Estimated),
        };
        Tokens {
            n_out,
            source,
            n_prompt: self.counts.prompt,
            n_cached: self.counts.cached,
            n_first: self.n_first,
            n_chunks: self.n_chunks,
            coalesced_reads: self.coalesced_reads,
            parse_errors: self.parse_errors,
        }
    }

    /// The server's own account of the time, and the cached tokens that only it told.
    /// `headers` is asked last; `ttft_seen` decides on units that servers do not agree on.
    pub(super) fn server_times(
        &mut self,
        headers: Option<&hyper::HeaderMap>,
        ttft_seen: Option<Duration>,
    ) -> (Option<ServerTimes>, Option<u64>) {
        let perf = |raw| Account::of_perf_metrics(raw, ttft_seen);
        let in_headers = || {
            headers?.iter().find_map(|(name, value)| {
                Account::of_header(name.as_str(), value.to_str().ok()?, ttft_seen)
            })
        };
        let accounts = &self.accounts;
        let timings = accounts.timings.as_deref().and_then(Account::of_timings);
        let found = timings.map(|account| (account, "timings"));
        let found =
            found.or_else(|| Some((perf(accounts.perf_metrics.as_deref()?)?, "perf_metrics")));
        let found = found
            .or_else(|| Some((Account::of_metrics(accounts.metrics.as_deref()?)?, "metrics")))
            .or_else(|| Some((in_headers()?, "headers")));
        let Some((account, source)) = found else { return (None, None) };
        let mut prefill = account.prefill;
        if let (None, Some(first_token)) = (prefill, account.first_token) {
            prefill = Some(first_token.saturating_sub(account.queue.unwrap_or_default()));
            if account.queue.is_none() {
                let note = "prefill is the server's time to first token, its queue included";
                self.notes.push(note.to_owned());
            }
        }
        let Account { queue, decode, n_cached, .. } = account;
        let times = ServerTimes { queue, prefill, decode, source: source.to_owned() };
        (Some(times), n_cached)
    }

    /// All text, reasoning first: its hash, and itself where it is to be kept.
    pub(super) fn text(&mut self, keep: Keep) -> (Option<String>, Option<String>) {
        if self.n_bytes() == 0 {
            return (None, None);
        }
        let mut whole = std::mem::take(&mut self.reasoning);
        whole.push_str(&self.text);
        whole.push_str(&self.arguments);
        let hash = hex(&Sha256::digest(whole.as_bytes()));
        (Some(hash), (keep == Keep::Text).then_some(whole))
    }
}

impl Accounts {
    fn keep(&mut self, chunk: &Chunk<'_>) {
        let slots = [
            (&mut self.timings, chunk.timings),
            (&mut self.perf_metrics, chunk.perf_metrics),
            (&mut self.metrics, chunk.metrics),
        ];
        for (slot, said) in slots {
            if let Some(said) = said {
                *slot = Some(said.to_owned());
            }
        }
    }
}

fn micros(gap: Duration) -> u32 {
    u32::try_from(gap.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::sse::frame;

    fn text(text: &str) -> String {
        frame(&serde_json::json!({"choices": [{"delta": {"content": text}}]}).to_string())
    }

    /// The reading of a stream whose pieces come in reads of these numbers, a millisecond apart.
    fn read(pieces: &[(&str, u64)]) -> Reading {
        let begun = Instant::now();
        let mut reading = Reading::new();
        for (piece, number) in pieces {
            let at = begun + Duration::from_millis(*number);
            reading.push(piece.as_bytes(), ReadStamp { at, number: *number }).unwrap();
        }
        reading
    }

    #[test]
    fn a_read_with_several_texts_is_counted_once() {
        let (a, b) = (text("a"), text("b"));
        let coalesced = |pieces: &[(&str, u64)]| {
            let answer = read(pieces).answer;
            (answer.tokens().n_chunks, answer.tokens().coalesced_reads, answer.gaps_us)
        };
        assert_eq!(coalesced(&[(&a, 1), (&b, 2), (&a, 3)]), (3, 0, vec![1000, 1000]));
        assert_eq!(coalesced(&[(&a, 1), (&b, 1), (&a, 1), (&b, 2)]), (4, 1, vec![0, 0, 1000]));
        // An event belongs to the read that ended it.
        let (start, end) = b.split_at(9);
        assert_eq!(coalesced(&[(&a, 1), (start, 1), (end, 2)]), (2, 0, vec![1000]));
    }
}
