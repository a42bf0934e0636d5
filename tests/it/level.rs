//! Levels against a scripted server: who sends what when, and what is kept of it.

use std::io::Write as _;
use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint, Timeouts};
use spark::bench::load::{LevelRun, LevelSpec, Unobserved, run_level};
use spark::bench::prompts::{PromptCursor, PromptFile, PromptReuse};
use spark::measure::level::{EndedBy, StartMode};
use spark::measure::trace::{FailureClass, Phase, RequestTrace, TokenSource};
use tokio_util::sync::CancellationToken;

use crate::support::scripted::{STREAM_HEAD, ScriptedServer, Step, chunk, good_answer, text_event};

pub(crate) fn prompts(n: usize) -> PromptCursor {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for index in 0..n {
        writeln!(file, "{}", serde_json::json!({"id": index, "text": format!("prompt {index}")}))
            .unwrap();
    }
    PromptCursor::new(PromptFile::read(file.path()).unwrap(), None, PromptReuse::Forbid)
}

pub(crate) fn run(endpoint: &Endpoint, spec: &LevelSpec) -> LevelRun {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cancel = CancellationToken::new();
    let mut prompts = prompts(8);
    let level = run_level(endpoint, &mut prompts, spec, &Unobserved, &cancel);
    // No test waits longer, whatever the server does.
    let level = async { tokio::time::timeout(Duration::from_secs(300), level).await };
    runtime.block_on(level).unwrap().unwrap()
}

fn endpoint(server: &ScriptedServer) -> Endpoint {
    Endpoint::new(&server.url(), BodyTemplate::new("m", 16)).unwrap()
}

#[test]
fn a_level_has_its_warm_up_its_requests_and_one_connection_a_worker() {
    let server = ScriptedServer::start(vec![vec![Step::Send(good_answer(4))]]);
    let spec = LevelSpec { warmup: 3, ..LevelSpec::closed(2, 10) };
    let run = run(&endpoint(&server), &spec);
    assert_eq!(run.ended_by, EndedBy::NOk);
    assert_eq!(run.start_mode, StartMode::Staggered);
    assert_eq!(run.traces.len(), 13);
    assert_eq!(server.n_connections(), 2);
    for (index, trace) in run.traces.iter().enumerate() {
        assert_eq!(trace.index as usize, index);
        assert_eq!(trace.prompt_index as usize, index % 8);
        assert!(trace.outcome.is_ok(), "{trace:?}");
        assert_eq!(trace.phase == Phase::Warmup, index < 3, "{trace:?}");
        assert_eq!(trace.connection.reused, index >= 2, "{trace:?}");
        assert!(!trace.connection.stale);
        assert_eq!(trace.tokens.n_out, Some(4));
        assert_eq!(trace.tokens.source, TokenSource::Usage);
        assert_eq!(trace.gaps_us.len(), 3);
    }
    let n_salted = run.traces.iter().filter(|trace| trace.prompt.is_salted).count();
    assert_eq!(n_salted, 5);
    // Two workers: which of their requests the server reads first is not ours to say.
    let salted = |request: &&String| request.contains("[pass 2]\\nprompt ");
    assert_eq!(server.requests().iter().filter(salted).count(), 5);
    assert!(server.requests().iter().any(|request| request.contains("[pass 2]\\nprompt 0")));
}

/// One request, not warmed up, against a script.
fn one(script: Vec<Step>) -> RequestTrace {
    one_within(script, Timeouts::default())
}

fn one_within(script: Vec<Step>, timeouts: Timeouts) -> RequestTrace {
    let server = ScriptedServer::start(vec![script]);
    let mut endpoint = endpoint(&server);
    endpoint.timeouts = timeouts;
    one_of(&endpoint)
}

/// The record of a single request.
pub(crate) fn one_of(endpoint: &Endpoint) -> RequestTrace {
    let spec = LevelSpec { warmup: 0, max_attempts: 1, ..LevelSpec::closed(1, 1) };
    run(endpoint, &spec).traces.remove(0)
}

fn body(events: &[String]) -> Vec<u8> {
    let chunks: String = events.iter().map(|event| chunk(event)).collect();
    format!("{STREAM_HEAD}{chunks}").into_bytes()
}

#[test]
fn a_request_ends_in_the_class_of_what_ended_it() {
    use FailureClass::{
        ConnectionReset, FirstTokenTimeout, IncompleteBody, Protocol, StallTimeout,
    };
    let some = body(&[text_event("a")]);
    let pause = Step::Pause(Duration::from_millis(20));
    let limit = Some(Duration::from_millis(300));
    for (script, class) in [
        (vec![Step::Hang], FirstTokenTimeout),
        (vec![Step::Send(some.clone()), Step::Hang], StallTimeout),
        (vec![Step::Send(some.clone()), Step::Close], IncompleteBody),
        (vec![Step::Send(some.clone()), pause, Step::Reset], ConnectionReset),
        (vec![Step::Close], IncompleteBody),
        (vec![Step::Flood(b"x".repeat(100))], Protocol),
    ] {
        let text = format!("{script:?}");
        // Only the limit that is meant: on a slow machine another would end it first.
        let timeouts = match class {
            FirstTokenTimeout => Timeouts { first_token: limit, ..Timeouts::default() },
            StallTimeout => Timeouts { stall: limit, ..Timeouts::default() },
            _ => Timeouts::default(),
        };
        let trace = one_within(script, timeouts);
        assert_eq!(trace.outcome.failure(), Some(class), "{text}: {:?}", trace.outcome);
        let said = matches!(class, StallTimeout | ConnectionReset);
        assert!(!said || trace.tokens.n_chunks == 1, "{text}: what came before is kept");
    }
}

#[test]
fn a_stream_that_comes_byte_by_byte_is_the_same_stream() {
    let whole = one(vec![Step::Send(good_answer(3))]);
    let dripped = one(vec![Step::Drip(good_answer(3))]);
    assert!(dripped.outcome.is_ok(), "{:?}", dripped.outcome);
    assert_eq!(dripped.text_sha256, whole.text_sha256);
    assert_eq!(dripped.tokens.n_out, whole.tokens.n_out);
    // How many events were in one read of the dripped one is the scheduler's business.
    assert_eq!(whole.tokens.coalesced_reads, 1);
}
