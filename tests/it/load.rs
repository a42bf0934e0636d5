//! How a level goes on and when it ends: replacements, caps, pauses, the clock, Ctrl-C.

use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint};
use spark::bench::load::{Arrivals, LevelRun, LevelSpec, Start, Unobserved, run_level};
use spark::measure::level::{EndedBy, StartMode};
use spark::measure::trace::{FailureClass, Phase, RequestTrace};
use tokio_util::sync::CancellationToken;

use crate::level::{prompts, run};
use crate::support::scripted::{ScriptedServer, Step, good_answer};

fn endpoint(server: &ScriptedServer) -> Endpoint {
    Endpoint::new(&server.url(), BodyTemplate::new("m", 16)).unwrap()
}

fn good() -> Vec<Step> {
    vec![Step::Send(good_answer(2))]
}

fn refused(retry_after: &str) -> Vec<Step> {
    let head = format!("HTTP/1.1 429 Busy\r\n{retry_after}Content-Length: 0\r\n\r\n");
    vec![Step::Send(head.into_bytes())]
}

fn failures(run: &LevelRun) -> Vec<FailureClass> {
    run.traces.iter().filter_map(|trace| trace.outcome.failure()).collect()
}

#[test]
fn a_failure_is_replaced_by_the_next_prompt_until_enough_are_ok() {
    let server = ScriptedServer::start(vec![refused("Retry-After: 0\r\n"), good()]);
    let spec = LevelSpec { warmup: 0, ..LevelSpec::closed(1, 4) };
    let run = run(&endpoint(&server), &spec);
    assert_eq!(run.ended_by, EndedBy::NOk);
    assert_eq!(run.start_mode, StartMode::Simultaneous, "no warm-up told how long a request takes");
    assert_eq!(failures(&run), [FailureClass::Http(429)]);
    let sent: Vec<u32> = run.traces.iter().map(|trace| trace.prompt_index).collect();
    assert_eq!(sent, [0, 1, 2, 3, 4]);
}

#[test]
fn retry_after_is_obeyed_as_think_time() {
    let server = ScriptedServer::start(vec![refused("Retry-After: 0.3\r\n"), good()]);
    let spec = LevelSpec { warmup: 0, ..LevelSpec::closed(1, 1) };
    let run = run(&endpoint(&server), &spec);
    let [first, second] = &run.traces[..] else { panic!("{:?}", run.traces) };
    assert_eq!(first.retry_after, Some(Duration::from_millis(300)));
    assert_eq!((first.pause, second.pause), (first.retry_after, None));
    assert!(second.start >= first.end() + Duration::from_millis(300));
}

#[test]
fn attempts_have_an_end_and_nobody_pauses_after_the_last() {
    let server = ScriptedServer::start(vec![
        refused("Retry-After: 0\r\n"),
        refused("Retry-After: 0\r\n"),
        refused("Retry-After: 600\r\n"),
    ]);
    let spec = LevelSpec { warmup: 0, max_attempts: 3, ..LevelSpec::closed(1, 2) };
    let run = run(&endpoint(&server), &spec);
    assert_eq!(run.ended_by, EndedBy::MaxAttempts);
    assert_eq!(run.traces.len(), 3);
    let pauses: Vec<_> = run.traces.iter().map(|trace| trace.pause).collect();
    assert_eq!(pauses, [Some(Duration::ZERO), Some(Duration::ZERO), None]);
}

#[test]
fn refusals_for_good_are_not_asked_for_again_and_again() {
    let answer = |status: &str| {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        vec![Step::Send(head.into_bytes())]
    };
    let refused = answer("404 Not Found");
    let spec = LevelSpec { warmup: 0, max_attempts: 15, ..LevelSpec::closed(1, 5) };
    let server = ScriptedServer::start(vec![refused.clone()]);
    let never = run(&endpoint(&server), &spec);
    assert_eq!((never.ended_by, never.traces.len()), (EndedBy::Refused, 10));
    // Where one was ok, or something else went wrong, it may be again.
    for once in [good(), answer("500 Internal Server Error")] {
        let server = ScriptedServer::start(vec![once, refused.clone()]);
        let run = run(&endpoint(&server), &spec);
        assert_eq!((run.ended_by, run.traces.len()), (EndedBy::MaxAttempts, 15));
    }
}

#[test]
fn time_has_an_end_and_what_is_in_flight_is_cancelled() {
    let server = ScriptedServer::start(vec![good(), vec![Step::Hang]]);
    let max_duration = Some(Duration::from_secs(1));
    let spec = LevelSpec { max_duration, warmup: 1, ..LevelSpec::closed(1, 5) };
    let run = run(&endpoint(&server), &spec);
    assert_eq!(run.ended_by, EndedBy::MaxDuration);
    assert_eq!(run.traces[0].phase, Phase::Warmup);
    // One is in flight then, unless this machine did not get to send it in all that time.
    let cut: Vec<_> = run.traces[1..].iter().map(|trace| trace.outcome.failure()).collect();
    assert!([&[][..], &[Some(FailureClass::Cancelled)]].contains(&&cut[..]), "{cut:?}");
}

#[test]
fn a_cancelled_level_ends_and_keeps_what_it_has() {
    let server = ScriptedServer::start(vec![good(), vec![Step::Hang]]);
    let cancel = CancellationToken::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let spec = LevelSpec { warmup: 0, ..LevelSpec::closed(2, 9) };
    let run = runtime.block_on(async {
        let (endpoint, mut prompts) = (endpoint(&server), prompts(8));
        let level = run_level(&endpoint, &mut prompts, &spec, &Unobserved, &cancel);
        let stop = async {
            let three = async {
                while server.requests().len() < 3 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(120), three).await.unwrap();
            cancel.cancel();
        };
        tokio::join!(level, stop).0.unwrap()
    });
    assert_eq!(run.ended_by, EndedBy::Interrupted);
    assert_eq!(failures(&run), [FailureClass::Cancelled; 2]);
    assert_eq!(run.traces.len(), 3);
}

#[test]
fn an_open_loop_sends_by_the_clock_whatever_the_server_does() {
    // The first answer comes when others have been asked for: a closed loop would wait for it.
    let slow = vec![Step::AwaitRequests(3), Step::Send(good_answer(2))];
    let server = ScriptedServer::start(vec![slow, good()]);
    let start = Start::Open { rate: 50.0, arrivals: Arrivals::Constant, seed: 1 };
    let spec = LevelSpec { warmup: 0, start, ..LevelSpec::closed(1, 6) };
    let run = run(&endpoint(&server), &spec);
    assert_eq!(run.ended_by, EndedBy::NOk);
    assert_eq!(run.start_mode, StartMode::OpenConstant);
    assert_eq!(run.traces.len(), 6);
    assert!(run.traces.iter().all(|trace| trace.phase == Phase::Steady));
    let intended =
        |trace: &RequestTrace| trace.start.saturating_sub(trace.lateness.unwrap()).as_micros();
    let first = intended(&run.traces[0]);
    for (index, trace) in (0..).zip(&run.traces) {
        let expected = first + 20_000 * index;
        assert!(intended(trace).abs_diff(expected) <= 1, "{index}: {}", intended(trace));
    }
    // Each arrival during the slow answer had a connection of its own or an idle one.
    assert!(server.n_connections() >= 2);
}

#[test]
fn poisson_arrivals_come_from_their_seed() {
    let server = ScriptedServer::start(vec![good()]);
    let gaps = |seed: u64| {
        let start = Start::Open { rate: 200.0, arrivals: Arrivals::Poisson, seed };
        let spec = LevelSpec { warmup: 1, start, ..LevelSpec::closed(1, 5) };
        let run = run(&endpoint(&server), &spec);
        assert_eq!(run.start_mode, StartMode::OpenPoisson);
        let times = run.traces.iter().filter(|trace| trace.is_measured());
        let times: Vec<u128> = times
            .map(|trace| (trace.start.saturating_sub(trace.lateness.unwrap())).as_micros())
            .collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let (one, again) = (gaps(7), gaps(7));
    assert!(one.iter().zip(&again).all(|(a, b)| a.abs_diff(*b) <= 1), "{one:?} {again:?}");
    assert_ne!(one, gaps(8));
}
