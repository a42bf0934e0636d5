//! The real inference thread with a scripted model behind it: order, cancelling, text, stopping.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spark::serve::inference::scripted::{Gate, Reply, ScriptedModel};
use spark::serve::inference::{
    Completion, Event, Events, Failure, FinishReason, GenerationParams, InferenceHandle,
    InferenceThread, Job, LoadError, Logprobs, Sampling, Specials, SubmitError, TokenId, spawn,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A running thread, and a runtime to wait for it.
struct Server {
    runtime: tokio::runtime::Runtime,
    thread: Option<InferenceThread>,
    handle: InferenceHandle,
}

impl Server {
    fn start(model: impl FnOnce() -> ScriptedModel + Send + 'static, max_queue: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut thread = spawn(move |_| Ok(model()), max_queue).unwrap();
        let handle = runtime.block_on(thread.ready()).unwrap();
        Self { runtime, thread: Some(thread), handle }
    }

    fn prompt(&self, text: &str) -> Vec<TokenId> {
        self.handle.tokenizer().tokenize(text, Specials::Recognise)
    }

    fn submit(&self, text: &str, params: GenerationParams) -> Result<Events, SubmitError> {
        self.handle.submit(Job { prompt: self.prompt(text), params, arrived: Instant::now() })
    }

    fn answer(&self, text: &str, params: GenerationParams) -> Answer {
        Answer::of(self.submit(text, params).unwrap())
    }

    fn shut_down(mut self, grace: Duration) {
        let thread = self.thread.take().unwrap();
        self.runtime.block_on(thread.shut_down(grace)).unwrap();
    }

    /// Waits until the gauges say so.
    fn wait_until(&self, what: &str, so: impl Fn(&InferenceHandle) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !so(&self.handle) {
            assert!(Instant::now() < deadline, "never: {what}: {:?}", self.handle.occupancy());
            std::thread::yield_now();
        }
    }
}

/// All that came of one request.
#[derive(Debug)]
struct Answer {
    events: Vec<Event>,
    chunks: Vec<String>,
    text: String,
}

impl Answer {
    fn of(mut events: Events) -> Self {
        let mut answer = Self { events: Vec::new(), chunks: Vec::new(), text: String::new() };
        while let Some(event) = events.blocking_next() {
            if let Event::Text(chunk) = &event {
                answer.text += &chunk.text;
                answer.chunks.push(chunk.text.clone());
            }
            answer.events.push(event);
        }
        answer
    }

    fn done(&self) -> &Completion {
        match self.events.last() {
            Some(Event::Done(completion)) => completion,
            other => panic!("ended with {other:?}"),
        }
    }

    fn failure(&self) -> &Failure {
        match self.events.last() {
            Some(Event::Failed(failure)) => failure,
            other => panic!("ended with {other:?}"),
        }
    }
}

fn greedy() -> GenerationParams {
    GenerationParams { sampling: Sampling::GREEDY, max_tokens: 100, ..GenerationParams::default() }
}

/// Answers "echo X" with the words of X, "bytes X" with the bytes of X.
fn echo(prompt: &str) -> Reply {
    match prompt.split_once(' ') {
        Some(("echo", rest)) => Reply::words(rest),
        Some(("bytes", rest)) => Reply::Pieces(rest.bytes().map(|byte| vec![byte]).collect()),
        Some(("fail", why)) => Reply::Error(why.to_owned()),
        Some(("panic", why)) => Reply::Panic(why.to_owned()),
        _ => Reply::words("what?"),
    }
}

#[test]
fn one_chunk_for_each_token_and_the_events_in_order() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let answer = server.answer("echo one two three", greedy());
    assert_eq!(answer.chunks, ["one ", "two ", "three"]);
    let done = answer.done();
    assert_eq!(done.reason, FinishReason::Stop);
    // The token that ended the answer counts.
    assert_eq!((done.n_prompt, done.n_generated, done.n_cached), (18, 4, 0));
    assert!(matches!(answer.events[0], Event::Started { .. }));
    assert!(matches!(answer.events[1], Event::PromptDone { n_prompt: 18, n_cached: 0, .. }));
    assert_eq!(answer.events.len(), 6);
    server.shut_down(PATIENCE);
}

#[test]
fn a_character_that_spans_tokens_comes_whole() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let answer = server.answer("bytes a€😀", greedy());
    assert_eq!(answer.chunks, ["a", "€", "😀"]);
    let cut = server.answer("bytes a€😀", GenerationParams { max_tokens: 6, ..greedy() });
    assert_eq!(cut.chunks, ["a", "€", "\u{fffd}"]);
    assert_eq!(cut.done().reason, FinishReason::Length);
}

#[test]
fn lengths_are_exact_with_every_ending_token_banned() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    for max_tokens in [1, 2, 3, 16, 200] {
        let params = GenerationParams { max_tokens, ignore_eos: true, ..greedy() };
        let answer = server.answer("echo one two", params);
        assert_eq!(answer.done().n_generated, max_tokens);
        assert_eq!(answer.done().reason, FinishReason::Length);
        assert_eq!(answer.chunks.len(), max_tokens as usize);
    }
}

#[test]
fn min_tokens_postpones_the_end() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let params = GenerationParams { min_tokens: 5, max_tokens: 7, ..greedy() };
    // "one", four fillers, and then the end is what the script wants.
    let answer = server.answer("echo one", params);
    assert_eq!(answer.text, "one....");
    assert_eq!(answer.done().reason, FinishReason::Stop);
}

#[test]
fn a_stop_string_is_never_sent_and_what_was_held_is() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let stop = |stop: &str| GenerationParams { stop: vec![stop.to_owned()], ..greedy() };
    let answer = server.answer("echo one two three", stop("o th"));
    assert_eq!(answer.text, "one tw");
    assert_eq!(answer.done().stopped_by.as_deref(), Some("o th"));
    assert_eq!(answer.done().reason, FinishReason::Stop);
    let held = server.answer("echo one two", stop("two three"));
    assert_eq!(held.text, "one two");
    assert_eq!(held.done().stopped_by, None);
}

#[test]
fn log_probabilities_of_a_stop_string_are_not_told() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let params = GenerationParams {
        stop: vec!["two three".to_owned()],
        logprobs: Some(Logprobs { top: 2 }),
        ..greedy()
    };
    let answer = server.answer("echo one two three", params);
    let told: Vec<Vec<u8>> = answer
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Text(chunk) => Some(&chunk.logprobs),
            _ => None,
        })
        .flatten()
        .map(|logprob| logprob.token.bytes.clone())
        .collect();
    assert_eq!(told, [b"one ".to_vec()]);
}

#[test]
fn the_context_bounds_prompt_and_answer() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let of_length = |n: usize| format!("echo {}", "x".repeat(n - 5));
    for n in [512, 513, 5000] {
        let refused = server.submit(&of_length(n), greedy()).err().unwrap();
        assert_eq!(refused, SubmitError::PromptTooLong { n_prompt: n, n_ctx: 512 });
    }
    let answer = server.answer(&of_length(511), greedy());
    assert_eq!(answer.done().n_generated, 1);
    assert_eq!(answer.done().reason, FinishReason::Length);
    let filled = server
        .answer("echo x", GenerationParams { ignore_eos: true, max_tokens: u32::MAX, ..greedy() });
    assert_eq!(filled.done().n_generated, 512 - 6);
    assert_eq!(filled.done().reason, FinishReason::Length);
}

#[test]
fn prompts_that_no_model_can_take_are_refused() {
    let server = Server::start(|| ScriptedModel::new(echo), 4);
    let submit = |prompt: Vec<TokenId>| {
        let job = Job { prompt, params: greedy(), arrived: Instant::now() };
        server.handle.submit(job).err().unwrap()
    };
    assert_eq!(submit(vec![]), SubmitError::EmptyPrompt);
    for id in [-1, 4096, i32::MAX, i32::MIN] {
        assert_eq!(submit(vec![1, id]), SubmitError::UnknownToken { id, n_vocab: 4096 });
    }
    assert_eq!(server.handle.occupancy().queued, 0);
}

#[test]
fn a_prompt_is_computed_in_pieces_of_one_ubatch() {
    let gate = Gate::open();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 4);
    let answer = server.answer(&format!("echo {}", "x".repeat(35)), greedy());
    assert_eq!(answer.done().n_prompt, 40);
    assert_eq!(gate.steps_made(), [16, 16, 8, 1]);
}

#[test]
fn first_come_first_served() {
    let gate = Gate::closed();
    let on_thread = gate.clone();
    let served = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&served);
    let script = move |prompt: &str| {
        log.lock().unwrap().push(prompt.to_owned());
        echo(prompt)
    };
    let server = Server::start(move || ScriptedModel::new(script).with_gate(on_thread), 20);
    let events: Vec<Events> =
        (0..20).map(|i| server.submit(&format!("echo {i}"), greedy()).unwrap()).collect();
    gate.wait_until_held();
    assert_eq!((server.handle.occupancy().queued, server.handle.occupancy().running), (19, 1));
    gate.open_for_good();
    for (i, events) in events.into_iter().enumerate() {
        assert_eq!(Answer::of(events).text, i.to_string());
    }
    let expected: Vec<String> = (0..20).map(|i| format!("echo {i}")).collect();
    assert_eq!(*served.lock().unwrap(), expected);
    let occupancy = server.handle.occupancy();
    assert_eq!((occupancy.queued, occupancy.running, occupancy.kv_tokens), (0, 0, 0));
}

#[test]
fn the_queue_is_bounded_and_has_room_again_when_somebody_leaves() {
    let gate = Gate::closed();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 2);
    let running = server.submit("echo running", greedy()).unwrap();
    gate.wait_until_held();
    let first = server.submit("echo first", greedy()).unwrap();
    let second = server.submit("echo second", greedy()).unwrap();
    let full = SubmitError::QueueFull { max_queue: 2 };
    assert_eq!(server.submit("echo third", greedy()).err(), Some(full));
    drop(first);
    let third = server.submit("echo third", greedy()).unwrap();
    gate.open_for_good();
    assert_eq!(Answer::of(running).text, "running");
    assert_eq!(Answer::of(second).text, "second");
    assert_eq!(Answer::of(third).text, "third");
    assert_eq!(server.handle.occupancy().cancelled_while_queued, 1);
}

#[test]
fn no_queue_at_all_still_serves_one() {
    let server = Server::start(|| ScriptedModel::new(echo), 0);
    for _ in 0..3 {
        assert_eq!(server.answer("echo one", greedy()).text, "one");
    }
}

#[test]
fn a_hang_up_in_the_queue_never_starts_and_touches_nobody() {
    let gate = Gate::closed();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 8);
    let running = server.submit("echo a b c", greedy()).unwrap();
    gate.wait_until_held();
    drop(server.submit("echo never", greedy()).unwrap());
    let last = server.submit("echo last", greedy()).unwrap();
    assert_eq!(server.handle.occupancy().queued, 1);
    gate.open_for_good();
    assert_eq!(Answer::of(running).text, "a b c");
    assert_eq!(Answer::of(last).text, "last");
    // Prompt and three tokens each: nothing was computed for the one that left.
    let n_prompts = gate.steps_made().iter().filter(|&&n| n > 1).count();
    assert_eq!(n_prompts, 2);
}

#[test]
fn a_hang_up_stops_a_prefill_within_one_ubatch_even_of_a_deaf_engine() {
    let gate = Gate::closed().deaf();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 8);
    let events = server.submit(&format!("echo {}", "x".repeat(200)), greedy()).unwrap();
    gate.allow(2);
    server.wait_until("two pieces", |_| gate.steps_made().len() == 2);
    gate.wait_until_held();
    drop(events);
    gate.open_for_good();
    server.wait_until("the slot is free", |handle| handle.occupancy().running == 0);
    assert_eq!(gate.steps_made(), [16, 16, 16]);
    assert_eq!(server.handle.occupancy().cancelled_while_running, 1);
    assert_eq!(server.answer("echo next", greedy()).text, "next");
}

#[test]
fn a_hang_up_aborts_an_engine_that_listens() {
    let gate = Gate::closed();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 8);
    let events = server.submit("echo one two", greedy()).unwrap();
    gate.wait_until_held();
    drop(events);
    server.wait_until("the slot is free", |handle| handle.occupancy().running == 0);
    assert!(gate.steps_made().is_empty());
}

#[test]
fn a_hang_up_stops_a_decode_within_one_token() {
    let gate = Gate::closed().deaf();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 8);
    let params = GenerationParams { ignore_eos: true, ..greedy() };
    let mut events = server.submit("echo one", params).unwrap();
    gate.allow(3);
    while !matches!(events.blocking_next(), Some(Event::Text(_))) {}
    server.wait_until("three steps", |_| gate.steps_made().len() == 3);
    gate.wait_until_held();
    drop(events);
    gate.open_for_good();
    server.wait_until("the slot is free", |handle| handle.occupancy().running == 0);
    assert_eq!(gate.steps_made().len(), 4);
}

#[test]
fn a_client_that_does_not_read_stalls_nobody() {
    let server = Server::start(|| ScriptedModel::new(echo), 8);
    let params = GenerationParams { max_tokens: 400, ignore_eos: true, ..greedy() };
    let unread = server.submit("echo slow", params).unwrap();
    assert_eq!(server.answer("echo quick", greedy()).text, "quick");
    assert_eq!(Answer::of(unread).done().n_generated, 400);
}

#[test]
fn many_hang_ups_at_any_moment_leave_nothing_behind() {
    let server = Server::start(|| ScriptedModel::new(echo), 1000);
    let mut kept = Vec::new();
    for i in 0..1000usize {
        let params = GenerationParams { max_tokens: 40, ignore_eos: true, ..greedy() };
        let mut events = server.submit(&format!("echo {i} and more"), params).unwrap();
        match i % 4 {
            0 => drop(events),
            1 => {
                for _ in 0..i % 20 {
                    events.blocking_next();
                }
            }
            2 => kept.push(events),
            _ => assert_eq!(Answer::of(events).done().n_generated, 40),
        }
    }
    for events in kept {
        assert_eq!(Answer::of(events).done().n_generated, 40);
    }
    server.wait_until("idle", |handle| handle.occupancy().running == 0);
    let occupancy = server.handle.occupancy();
    assert_eq!((occupancy.queued, occupancy.running, occupancy.kv_tokens), (0, 0, 0));
    assert!(occupancy.cancelled_while_queued + occupancy.cancelled_while_running <= 500);
    server.shut_down(PATIENCE);
}

#[test]
fn an_engine_that_fails_or_panics_fails_one_request_only() {
    let server = Server::start(|| ScriptedModel::new(echo), 8);
    let failed = server.answer("fail no luck", greedy());
    assert_eq!(failed.failure(), &Failure::Engine("no luck".to_owned()));
    let panicked = server.answer("panic at the disco", greedy());
    assert_eq!(panicked.failure(), &Failure::Engine("a bug: at the disco".to_owned()));
    assert_eq!(server.answer("echo still here", greedy()).text, "still here");
    assert_eq!(server.handle.occupancy().running, 0);
}

#[test]
fn draining_lets_the_running_one_finish_and_refuses_the_rest() {
    let gate = Gate::closed();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 8);
    let running = server.submit("echo to the end", greedy()).unwrap();
    gate.wait_until_held();
    let waiting = server.submit("echo waiting", greedy()).unwrap();
    server.thread.as_ref().unwrap().drain();
    assert!(!server.handle.is_serving());
    let refused = server.submit("echo late", greedy()).err();
    assert_eq!(refused, Some(SubmitError::NotServing(Failure::ShuttingDown)));
    gate.allow(1);
    assert_eq!(Answer::of(waiting).failure(), &Failure::ShuttingDown);
    gate.open_for_good();
    assert_eq!(Answer::of(running).text, "to the end");
    server.shut_down(PATIENCE);
}

#[test]
fn a_drain_that_takes_too_long_cuts_the_running_one_off_and_sends_what_was_held() {
    let gate = Gate::closed();
    let on_thread = gate.clone();
    let server = Server::start(move || ScriptedModel::new(echo).with_gate(on_thread), 8);
    let params = GenerationParams { stop: vec!["one two three four".to_owned()], ..greedy() };
    let running = server.submit("echo one two three", params).unwrap();
    gate.allow(2);
    server.wait_until("two steps", |_| gate.steps_made().len() == 2);
    gate.wait_until_held();
    server.shut_down(Duration::ZERO);
    let answer = Answer::of(running);
    assert_eq!(answer.text, "one ");
    assert_eq!(answer.failure(), &Failure::ShuttingDown);
}

#[test]
fn a_thread_whose_owner_goes_away_ends() {
    let server = Server::start(|| ScriptedModel::new(echo), 8);
    let handle = server.handle.clone();
    let ended = server.thread.as_ref().unwrap().watch();
    drop(server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, ended.cancelled()).await }).unwrap();
    let job = Job { prompt: vec![1], params: greedy(), arrived: Instant::now() };
    assert!(matches!(handle.submit(job), Err(SubmitError::NotServing(_))));
}

#[test]
fn loading_can_fail_panic_or_be_stopped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let missing = LoadError::Missing { path: "model.gguf".into() };
    let error = missing.clone();
    let mut thread = spawn(move |_| Err::<ScriptedModel, _>(error), 1).unwrap();
    assert_eq!(runtime.block_on(thread.ready()).err(), Some(missing));
    runtime.block_on(thread.shut_down(PATIENCE)).unwrap();

    let mut thread = spawn(|_| -> Result<ScriptedModel, _> { panic!("boom") }, 1).unwrap();
    assert!(matches!(runtime.block_on(thread.ready()), Err(LoadError::Engine(_))));
    assert!(runtime.block_on(thread.shut_down(PATIENCE)).is_err());

    let mut thread = spawn(
        |stop| {
            while !stop.is_draining() {
                std::thread::yield_now();
            }
            Err::<ScriptedModel, _>(LoadError::Cancelled)
        },
        1,
    )
    .unwrap();
    thread.drain();
    assert_eq!(runtime.block_on(thread.ready()).err(), Some(LoadError::Cancelled));
    runtime.block_on(thread.shut_down(PATIENCE)).unwrap();
}

#[test]
fn a_prompt_cache_keeps_the_common_beginning_and_only_when_asked() {
    let cached = |prompt_cache: bool| {
        let model = move || {
            ScriptedModel::new(echo).with_settings(|settings| settings.prompt_cache = prompt_cache)
        };
        let server = Server::start(model, 4);
        let first = server.answer("echo one two", greedy()).done().n_cached;
        let second = server.answer("echo one three", greedy()).done().n_cached;
        let refused = GenerationParams { cache_prompt: false, ..greedy() };
        let third = server.answer("echo one three", refused).done().n_cached;
        let same = server.answer("echo one three", greedy());
        assert_eq!(same.text, "one three");
        [first, second, third, same.done().n_cached]
    };
    assert_eq!(cached(false), [0, 0, 0, 0]);
    // The last token of a prompt is always computed again: its logits are needed.
    assert_eq!(cached(true), [0, 10, 0, 13]);
}
