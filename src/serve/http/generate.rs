//! The two endpoints that generate: read, check, submit, and send what comes back.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;

use crate::api::chat::ChatRequest;
use crate::api::completion::{CompletionRequest, Prompt};
use crate::api::error::kind;
use crate::api::options::Options;
use crate::serve::inference::{
    Event, Failure, GenerationParams, Job, TextChunk, TokenId, Tokenizer,
};
use crate::serve::metrics::Outcome;
use crate::serve::prompt::Prompter;

use super::answer::{End, Envelope, Form};
use super::app::App;
use super::body::Whole;
use super::chat::ChatForm;
use super::completion::CompletionForm;
use super::heard::Heard;
use super::params::generation_params;
use super::peer::Peer;
use super::record::{Arrival, RequestRecord};
use super::refusal::{self, Refusal};
use super::stream::AnswerStream;

/// OpenAI's default for text completions; chat answers are limited by the context alone.
const COMPLETION_TOKENS_DEFAULT: u32 = 16;
/// Bodies up to this size are prepared at once: handing them over would take longer than the work.
/// Larger ones would keep other requests waiting, and so would grammars, however small the schema.
const PREPARED_INLINE_BYTES_MAX: usize = 4096;

/// A request that was understood.
struct Prepared {
    prompt: Vec<TokenId>,
    params: GenerationParams,
    stream: bool,
    envelope: Envelope,
}

/// `POST /v1/chat/completions`.
pub async fn chat(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let request = Arrived::new(request, Endpoint::Chat);
    answer(app, request, prepare_chat, ChatForm::new).await
}

/// `POST /v1/completions`.
pub async fn completion(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let request = Arrived::new(request, Endpoint::Completion);
    answer(app, request, prepare_completion, CompletionForm::new).await
}

/// Where a request came in.
#[derive(Debug, Clone, Copy)]
enum Endpoint {
    Chat,
    Completion,
}

impl Endpoint {
    /// Its name in the log.
    fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completion => "completion",
        }
    }

    fn id_prefix(self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl-",
            Self::Completion => "cmpl-",
        }
    }

    /// The field that the prompt is made of.
    fn prompt_field(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completion => "prompt",
        }
    }
}

/// A request at the door.
struct Arrived {
    request: Request,
    endpoint: Endpoint,
    id: String,
}

impl Arrived {
    fn new(request: Request, endpoint: Endpoint) -> Self {
        let id = format!("{}{}", endpoint.id_prefix(), uuid::Uuid::new_v4().simple());
        Self { request, endpoint, id }
    }
}

/// Everything that a preparation needs, off the reactor.
struct Tools {
    prompter: Arc<Prompter>,
    tokenizer: Arc<dyn Tokenizer>,
    id: String,
    model: String,
}

async fn answer<F: Form>(
    app: Arc<App>,
    arrived: Arrived,
    prepare: fn(&[u8], Tools) -> Result<Prepared, Refusal>,
    form: impl FnOnce(Envelope) -> F,
) -> Response<Body> {
    let id = arrived.id.clone();
    let endpoint = arrived.endpoint.name();
    let mut response = match accept(&app, arrived, prepare).await {
        Ok(accepted) => accepted.respond(form).await,
        Err(refusal) => {
            let (status, reason) = (refusal.status.as_u16(), &refusal.detail.message);
            tracing::info!(id, endpoint, outcome = "refused", status, reason, "request");
            app.metrics.ended(Outcome::Refused);
            refusal.into_response()
        }
    };
    let id = HeaderValue::from_str(&id).expect("an id is letters, digits and dashes");
    response.headers_mut().insert("x-request-id", id);
    response
}

/// A request that has its place in the queue.
struct Accepted {
    events: Heard,
    record: RequestRecord,
    stream: bool,
    envelope: Envelope,
}

async fn accept(
    app: &App,
    arrived: Arrived,
    prepare: fn(&[u8], Tools) -> Result<Prepared, Refusal>,
) -> Result<Accepted, Refusal> {
    let loaded = app.serving()?;
    let (mut head, body) = arrived.request.into_parts();
    let peer = head.extensions.remove::<Peer>();
    let body = app.bodies.read_json(&head.headers, body).await?;
    let (place, whole_at) = (app.line.join(), Instant::now());
    let tools = Tools {
        prompter: Arc::clone(&loaded.prompter),
        tokenizer: Arc::clone(loaded.tokenizer()),
        id: arrived.id.clone(),
        model: loaded.card.id.clone(),
    };
    let prepared = prepare_where_it_suits(body, tools, prepare).await?;
    let ready_at = Instant::now();
    let n_prompt = prepared.prompt.len();
    let job = Job { prompt: prepared.prompt, params: prepared.params, arrived: ready_at };
    let refused = |error| {
        let field = arrived.endpoint.prompt_field();
        refusal::of_submit(error, field, loaded.n_ctx(), app.metrics.retry_after_s())
    };
    // What can't be taken is told at once, not when its turn has come.
    loaded.handle.check(&job).map_err(refused)?;
    place.turn().await;
    let events = loaded.handle.submit(job).map_err(refused)?;
    drop(place);
    let record = RequestRecord::new(
        Arc::clone(&app.metrics),
        arrived.id,
        arrived.endpoint.name(),
        Arrival { at: whole_at, tokenize: ready_at - whole_at },
        n_prompt,
    );
    let Prepared { stream, envelope, .. } = prepared;
    Ok(Accepted { events: Heard::new(events, peer), record, stream, envelope })
}

impl Accepted {
    async fn respond<F: Form>(self, form: impl FnOnce(Envelope) -> F) -> Response<Body> {
        let Self { events, record, stream, envelope } = self;
        let stream_usage = envelope.stream_usage;
        let form = form(envelope);
        if stream {
            return AnswerStream::new(events, form, stream_usage, record).into_response();
        }
        match collect(events, form, record).await {
            Ok(json) => {
                let json_type = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, json_type)], json).into_response()
            }
            Err(refusal) => refusal.into_response(),
        }
    }
}

async fn prepare_where_it_suits(
    body: Whole,
    tools: Tools,
    prepare: fn(&[u8], Tools) -> Result<Prepared, Refusal>,
) -> Result<Prepared, Refusal> {
    let makes_a_grammar = || memmem(&body, b"response_format");
    if body.len() <= PREPARED_INLINE_BYTES_MAX && !makes_a_grammar() {
        return prepare(&body, tools);
    }
    let prepared = tokio::task::spawn_blocking(move || prepare(&body, tools)).await;
    prepared.unwrap_or_else(|_| {
        let message = "Failed to read the request because of a bug in the server.";
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, kind::SERVER, message))
    })
}

/// Whether `needle` stands somewhere in `haystack`.
fn memmem(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn prepare_chat(body: &[u8], tools: Tools) -> Result<Prepared, Refusal> {
    let request = ChatRequest::parse(body)?;
    let n_ctx = tools.tokenizer.settings().n_ctx;
    let prompt = tools.prompter.chat(&request.messages);
    let field = Endpoint::Chat.prompt_field();
    let prompt = prompt.map_err(|error| refusal::of_prompt(&error, field, n_ctx))?;
    prepared(prompt, request.options, request.top_logprobs, u32::MAX, tools)
}

fn prepare_completion(body: &[u8], tools: Tools) -> Result<Prepared, Refusal> {
    let request = CompletionRequest::parse(body)?;
    let n_ctx = tools.tokenizer.settings().n_ctx;
    let prompt = match request.prompt {
        Prompt::Text(text) => {
            let field = Endpoint::Completion.prompt_field();
            let prompt = tools.prompter.text(&text);
            prompt.map_err(|error| refusal::of_prompt(&error, field, n_ctx))?
        }
        Prompt::Tokens(tokens) => tokens,
    };
    prepared(prompt, request.options, request.logprobs, COMPLETION_TOKENS_DEFAULT, tools)
}

fn prepared(
    prompt: Vec<TokenId>,
    options: Options,
    top_logprobs: Option<u32>,
    max_tokens_default: u32,
    tools: Tools,
) -> Result<Prepared, Refusal> {
    let stream = options.stream;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let envelope = Envelope {
        id: tools.id,
        created: now.map_or(0, |since| since.as_secs()),
        model: tools.model,
        stream_usage: options.stream_usage,
        perf_metrics: options.perf_metrics_in_response,
        logprobs: top_logprobs.is_some(),
    };
    let tokenizer = tools.tokenizer.as_ref();
    let params = generation_params(options, top_logprobs, max_tokens_default, tokenizer)?;
    Ok(Prepared { prompt, params, stream, envelope })
}

/// Waits for the whole answer. When hyper drops this future, the client has hung up; one that only
/// closed its sending side may still read that it is not answered.
async fn collect<F: Form>(
    mut events: Heard,
    mut form: F,
    mut record: RequestRecord,
) -> Result<String, Refusal> {
    let mut all = TextChunk::default();
    while let Some(event) = events.next().await {
        let event =
            event.map_err(|hung_up| Refusal::bad_request(format!("Stopped: {hung_up}.")))?;
        record.saw(&event);
        match event {
            Event::Started { .. } | Event::PromptDone { .. } => {}
            Event::Text(mut chunk) => {
                all.text.push_str(&chunk.text);
                all.n_tokens += chunk.n_tokens;
                all.logprobs.append(&mut chunk.logprobs);
            }
            Event::Done(completion) => {
                return Ok(form.whole(all, &End::of(&completion, record.tokenize())));
            }
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
    Err(Failure::Gone.into())
}
