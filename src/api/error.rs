//! OpenAI's error body, and why a request could not be understood.

use serde::{Deserialize, Serialize};

/// The body of every refusal, and of an error event within a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The only key.
    pub error: ErrorDetail,
}

/// What went wrong, under OpenAI's names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// For people. One sentence or two.
    pub message: String,
    /// The kind of error, `invalid_request_error` for example.
    #[serde(rename = "type")]
    pub kind: String,
    /// The field of the request that is to blame, `messages[2].role` for example.
    pub param: Option<String>,
    /// For programs: `context_length_exceeded` for example.
    pub code: Option<String>,
}

/// The types of errors that OpenAI's clients know.
pub mod kind {
    /// The request is at fault; sending it again will not help.
    pub const INVALID_REQUEST: &str = "invalid_request_error";
    /// The key is missing or wrong.
    pub const AUTHENTICATION: &str = "authentication_error";
    /// The queue is full; later there may be room.
    pub const RATE_LIMIT: &str = "rate_limit_error";
    /// The server is loading or shutting down.
    pub const UNAVAILABLE: &str = "service_unavailable_error";
    /// The server is at fault.
    pub const SERVER: &str = "server_error";
}

/// Why a body is not a request: always the client's mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// What is wrong, with the value that was found and the values that would do.
    pub message: String,
    /// The field that is to blame; none if the body as a whole is.
    pub param: Option<String>,
    /// OpenAI's code for it, if there is one.
    pub code: Option<&'static str>,
}

impl RequestError {
    /// A field with a value that can't be used.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), param: Some(param.into()), code: None }
    }

    /// A body that can't be used as a whole.
    pub fn body(message: impl Into<String>) -> Self {
        Self { message: message.into(), param: None, code: None }
    }

    /// The same with a code for programs.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }
}
