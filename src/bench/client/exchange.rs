//! One request and its answer, start to end. It never fails: what goes wrong is in the record.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri};
use tokio_util::sync::CancellationToken;

use super::answer::{drain, read_answer};
use super::connect::{ConnectStamps, Dialer};
use super::connection::Connection;
use super::endpoint::{Endpoint, HttpVersion};
use super::failure::Failure;
use super::trace::{Seen, Ticket};
use super::wait::{Stage, Wait};
use crate::measure::trace::{FailureClass, Outcome, RequestTrace};

/// What all workers of a level share of the way to the server.
pub(in crate::bench) struct Route {
    pub(in crate::bench) endpoint: Endpoint,
    dialer: Dialer,
    uri: Uri,
    headers: HeaderMap,
}

impl Route {
    pub(in crate::bench) fn new(endpoint: &Endpoint) -> Self {
        let (target, version) = (&endpoint.target, endpoint.http_version);
        let uri = match version {
            HttpVersion::Http1 => target.path.clone(),
            // It has no request line: scheme and authority are fields like the path.
            HttpVersion::Http2 => target.url(),
        };
        Self {
            dialer: Dialer::new(target.clone(), version, &endpoint.extra_ca),
            uri: uri.parse().expect("it was taken from a URL"),
            headers: request_headers(endpoint),
            endpoint: endpoint.clone(),
        }
    }
}

/// One worker's way to the server: a connection that is kept between its requests.
pub(in crate::bench) struct Client {
    route: Arc<Route>,
    connection: Option<Connection>,
    /// The headers of the first answer.
    pub(in crate::bench) first_headers: Option<AnswerHeaders>,
}

/// The headers of one answer. A refusal's name the limits too.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::bench) enum AnswerHeaders {
    Good(HeaderMap),
    Refusal(HeaderMap),
}

impl AnswerHeaders {
    /// Of two answers the one that tells more: a good one, then the first.
    pub(in crate::bench) fn better(first: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (first, other) {
            (Some(Self::Refusal(_)), Some(Self::Good(good))) => Some(Self::Good(good)),
            (first, other) => first.or(other),
        }
    }

    pub(in crate::bench) fn into_map(self) -> HeaderMap {
        match self {
            Self::Good(headers) | Self::Refusal(headers) => headers,
        }
    }
}

impl Client {
    pub(in crate::bench) fn new(route: &Arc<Route>) -> Self {
        Self { route: Arc::clone(route), connection: None, first_headers: None }
    }

    /// Opens the connection without a request. A failure is left to the first request to report.
    pub(in crate::bench) async fn open(&mut self, cancel: &CancellationToken) {
        let mut wait = Wait::new(self.route.endpoint.timeouts, Instant::now(), cancel);
        self.connection = self.connect(&mut ConnectStamps::default(), &mut wait).await.ok();
    }

    /// Sends one request and reads its answer to the end.
    pub(in crate::bench) async fn send(
        &mut self,
        ticket: Ticket,
        body: Bytes,
        cancel: &CancellationToken,
    ) -> RequestTrace {
        let request = self.request(body);
        let mut seen = Seen::new();
        let sent_at = Instant::now();
        let mut wait = Wait::new(self.route.endpoint.timeouts, sent_at, cancel);
        let ended = self.exchange(&request, sent_at, &mut seen, &mut wait).await;
        let failed_at = Instant::now();
        let outcome = match ended {
            Ok(()) => Outcome::Ok,
            Err(failure) => {
                Outcome::Failed(failure.class, self.route.endpoint.redact(&failure.text))
            }
        };
        let is_known = matches!(self.first_headers, Some(AnswerHeaders::Good(_)));
        if let Some(headers) = seen.headers.as_ref().filter(|_| !is_known) {
            let of = if outcome.is_ok() { AnswerHeaders::Good } else { AnswerHeaders::Refusal };
            let known = self.first_headers.take();
            self.first_headers = AnswerHeaders::better(known, Some(of(headers.clone())));
        }
        self.tidy_up(&mut seen).await;
        let endpoint = &self.route.endpoint;
        let mut trace = seen.into_trace(ticket, sent_at, failed_at, outcome, endpoint.keep);
        // A server may say anything back, what it was sent included.
        for text in [&mut trace.text, &mut trace.model, &mut trace.finish_reason] {
            *text = text.take().map(|text| endpoint.redact(&text));
        }
        trace
    }

    async fn exchange(
        &mut self,
        request: &Request<Full<Bytes>>,
        sent_at: Instant,
        seen: &mut Seen,
        wait: &mut Wait<'_>,
    ) -> Result<(), Failure> {
        self.reuse_or_connect(seen, wait).await?;
        let mut connection = self.connection.as_mut().expect("it was just made sure of");
        let mut before = connection.mark();
        let mut sent = wait.until(Stage::Waiting, connection.send(request.clone())).await;
        if let Ok(Err(error)) = &sent
            && seen.connection.reused
            && connection.had_died(error, before, sent_at, self.route.endpoint.stale_slack)
        {
            seen.note_stale("after the request was sent on it");
            let opened = self.connect(&mut seen.connect, wait).await?;
            connection = self.connection.insert(opened);
            before = connection.mark();
            sent = wait.until(Stage::Waiting, connection.send(request.clone())).await;
        }
        seen.note_sent(connection, before, sent_at);
        let ended = match sent {
            Ok(Ok(response)) => read_answer(connection, response, seen, wait).await,
            Ok(Err(error)) => Err(Failure::of_exchange(&error, &connection.wire)),
            Err(failure) => Err(failure),
        };
        seen.connection.rtt_min = connection.tcp_info().rtt_min;
        ended
    }

    /// Makes sure of a connection: the kept one if it lives, else a fresh one.
    async fn reuse_or_connect(
        &mut self,
        seen: &mut Seen,
        wait: &mut Wait<'_>,
    ) -> Result<(), Failure> {
        if let Some(kept) = &mut self.connection {
            if kept.is_alive().await {
                seen.connection.reused = true;
                return Ok(());
            }
            seen.note_stale("before the request was sent");
            self.connection = None;
        }
        self.connection = Some(self.connect(&mut seen.connect, wait).await?);
        Ok(())
    }

    async fn connect(
        &self,
        stamps: &mut ConnectStamps,
        wait: &mut Wait<'_>,
    ) -> Result<Connection, Failure> {
        *stamps = ConnectStamps::default();
        let begun = Stage::Connecting(Instant::now());
        // In memory of its own, and only while it lasts: every stream's task would hold room for it.
        let opening = Box::pin(self.route.dialer.open(stamps));
        let opened = wait.until(begun, opening).await.and_then(|opened| opened);
        opened.map_err(|failure| match failure.class {
            // TCP stood: what took too long was the handshake.
            FailureClass::Connect if stamps.connected.is_some() => {
                Failure::new(FailureClass::Tls, failure.text)
            }
            _ => failure,
        })
    }

    /// After the answer: the connection is kept if the answer was read to its end, or can be, and
    /// the server has not announced that it closes it.
    async fn tidy_up(&mut self, seen: &mut Seen) {
        let Some(connection) = &mut self.connection else { return };
        if let Some(body) = &mut seen.unread {
            seen.complete = drain(connection, body).await;
        }
        if !seen.complete || seen.close_announced {
            self.connection = None;
        }
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.route.uri.clone();
        *request.headers_mut() = self.route.headers.clone();
        request
    }
}

/// The headers of every request; the endpoint's own win.
fn request_headers(endpoint: &Endpoint) -> HeaderMap {
    let authority = &endpoint.target.authority;
    let host = HeaderValue::from_str(authority).expect("the authority of a URL is header text");
    let mut headers = HeaderMap::new();
    if endpoint.http_version == HttpVersion::Http1 {
        headers.insert(header::HOST, host);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let agent = concat!("spark-bench/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in endpoint.headers() {
        headers.insert(name, value.clone());
    }
    headers
}
