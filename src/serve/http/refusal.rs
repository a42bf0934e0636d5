//! Why a request gets no answer, as a status and OpenAI's error body.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use crate::api::error::{ErrorBody, ErrorDetail, RequestError, kind};
use crate::serve::inference::{Failure, SubmitError};
use crate::serve::prompt::PromptError;

/// A refusal: everything that is sent instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// 4xx for the client's mistakes, since clients retry on 5xx.
    pub status: StatusCode,
    /// The body.
    pub detail: ErrorDetail,
    /// Seconds after which another try may succeed.
    pub retry_after_s: Option<u64>,
}

impl Refusal {
    /// A refusal of this status and kind.
    pub fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        let detail =
            ErrorDetail { message: message.into(), kind: kind.to_owned(), param: None, code: None };
        Self { status, detail, retry_after_s: None }
    }

    /// The client's mistake: 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind::INVALID_REQUEST, message)
    }

    /// The server can't take work now: 503.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind::UNAVAILABLE, message)
    }

    /// The prompt leaves no room for an answer.
    pub fn context_length(n_ctx: u32, n_prompt: &str) -> Self {
        let message = format!(
            "This model's maximum context length is {n_ctx} tokens. However, your prompt has \
             {n_prompt} tokens, and the answer needs at least one. Please reduce the length of the \
             prompt."
        );
        Self::bad_request(message).code("context_length_exceeded")
    }

    /// The same with a code for programs.
    #[must_use]
    pub fn code(mut self, code: &str) -> Self {
        self.detail.code = Some(code.to_owned());
        self
    }

    /// The same with the field that is to blame.
    #[must_use]
    pub fn param(mut self, param: &str) -> Self {
        self.detail.param = Some(param.to_owned());
        self
    }

    /// The same with a time after which another try may succeed.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The body's text.
    pub fn to_json(&self) -> String {
        let body = ErrorBody { error: self.detail.clone() };
        serde_json::to_string(&body).expect("an error body is plain strings")
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        let mut refusal = Self::bad_request(error.message);
        refusal.detail.param = error.param;
        refusal.detail.code = error.code.map(str::to_owned);
        refusal
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::ShuttingDown => Self::unavailable("The server is shutting down."),
            Failure::Engine(_) | Failure::Gone => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                kind::SERVER,
                format!("Failed to answer: {failure}."),
            ),
        }
    }
}

/// What a prompt's mistakes mean to a client of a model with this context. `field` is what the prompt
/// is made of.
pub fn of_prompt(error: &PromptError, field: &str, n_ctx: u32) -> Refusal {
    let refusal = match error {
        PromptError::Template(error) => {
            Refusal::bad_request(format!("The chat template refuses the conversation: {error}"))
        }
        PromptError::TooLong { n_tokens_min } => {
            Refusal::context_length(n_ctx, &format!("more than {n_tokens_min}"))
        }
    };
    refusal.param(field)
}

/// What a request that the queue does not take means to its client. `field` is what the prompt is
/// made of, `retry_after_s` is for a full queue.
pub fn of_submit(error: SubmitError, field: &str, n_ctx: u32, retry_after_s: u64) -> Refusal {
    match error {
        SubmitError::QueueFull { max_queue } => Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            kind::RATE_LIMIT,
            format!("The queue is full: {max_queue} requests are waiting. Please retry later."),
        )
        .code("queue_full")
        .retry_after(retry_after_s),
        SubmitError::NotServing(failure) => failure.into(),
        SubmitError::EmptyPrompt => {
            Refusal::bad_request("The prompt is empty: there is nothing to continue.").param(field)
        }
        SubmitError::PromptTooLong { n_prompt, .. } => {
            Refusal::context_length(n_ctx, &n_prompt.to_string()).param(field)
        }
        SubmitError::UnknownToken { id, n_vocab } => Refusal::bad_request(format!(
            "Token id {id} is out of range: the vocabulary has {n_vocab} tokens."
        ))
        .param(field),
    }
}
