//! An answer as server-sent events: one frame of the body for each, as soon as it is there.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::Stream;

use crate::api::options::StreamUsage;
use crate::api::sse;
use crate::serve::inference::{Completion, Event, Failure};

use super::answer::{End, Form};
use super::heard::{Heard, HungUp};
use super::record::RequestRecord;
use super::refusal::Refusal;

/// The events of one answer. Dropping it, as hyper does when the client hangs up, drops what it has
/// [`Heard`], which stops the work.
pub struct AnswerStream<F> {
    events: Heard,
    form: F,
    stream_usage: StreamUsage,
    record: RequestRecord,
    /// Frames that are ready: at most four, at the answer's end.
    ready: VecDeque<Bytes>,
    over: bool,
}

impl<F: Form> AnswerStream<F> {
    /// The stream of an accepted request.
    pub fn new(events: Heard, form: F, stream_usage: StreamUsage, record: RequestRecord) -> Self {
        let ready = form.opening().into_iter().collect();
        Self { events, form, stream_usage, record, ready, over: false }
    }

    /// The response that carries it.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from_stream(self));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    fn take(&mut self, event: Event) {
        self.record.saw(&event);
        match event {
            Event::Started { .. } | Event::PromptDone { .. } => {}
            Event::Text(chunk) => self.ready.push_back(self.form.piece(&chunk)),
            Event::Done(completion) => self.finish(&completion),
            Event::Failed(failure) => self.fail(failure),
        }
    }

    fn finish(&mut self, completion: &Completion) {
        let end = End::of(completion, self.record.tokenize());
        self.ready.push_back(self.form.finish(&end));
        if self.stream_usage == StreamUsage::OwnChunk {
            self.ready.push_back(self.form.usage(end.usage));
        }
        self.close();
    }

    fn fail(&mut self, failure: Failure) {
        self.ready.push_back(frame(&Refusal::from(failure).to_json()));
        self.close();
    }

    fn close(&mut self) {
        self.ready.push_back(frame(sse::DONE));
        self.over = true;
    }
}

impl<F: Form> Stream for AnswerStream<F> {
    type Item = Result<Bytes, HungUp>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match self.events.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(event))) => self.take(event),
                Poll::Ready(Some(Err(hung_up))) => return Poll::Ready(Some(Err(hung_up))),
                Poll::Ready(None) => self.fail(Failure::Gone),
            }
        }
    }
}

fn frame(data: &str) -> Bytes {
    Bytes::from(sse::frame(data))
}
