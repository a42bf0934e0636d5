//! The inference thread with llama.cpp and the real small model.

use std::borrow::Borrow;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use spark::serve::inference::llama::{LoadOptions, load};
use spark::serve::inference::{
    Completion, Event, Events, FinishReason, GenerationParams, InferenceHandle, InferenceThread,
    Job, LoadError, Logprobs, Penalties, Sampling, Specials, TokenId, Tokenizer, spawn,
};

use crate::support::cores::{self, Turn};
use crate::support::model::small_model;

const PATIENCE: Duration = Duration::from_secs(120);

/// A running thread with the model in it.
struct Served {
    _thread: InferenceThread,
    handle: InferenceHandle,
}

/// A model that may compute, because it is this test's turn.
struct InTurn<M> {
    model: M,
    _turn: Turn,
}

impl<M: Borrow<Served>> Deref for InTurn<M> {
    type Target = Served;

    fn deref(&self) -> &Served {
        Borrow::<Served>::borrow(&self.model)
    }
}

/// One thread each: on a machine that does other things too, two wait for each other.
fn options(path: impl Into<PathBuf>) -> LoadOptions {
    LoadOptions { threads: Some(1), threads_batch: Some(1), ..LoadOptions::new(path) }
}

/// Loads a model. Who calls it has the turn.
fn start(options: LoadOptions) -> Result<Served, LoadError> {
    let mut thread = spawn(move |stop| load(&options, stop), 8).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.block_on(thread.ready())?;
    Ok(Served { _thread: thread, handle })
}

/// The model with a context of 1,024 tokens, loaded once for all tests.
fn served() -> Option<InTurn<&'static Served>> {
    static SERVED: OnceLock<Option<Served>> = OnceLock::new();
    let turn = cores::turn();
    let served = SERVED.get_or_init(|| {
        let path = small_model()?;
        Some(start(LoadOptions { ctx: Some(1024), ..options(path) }).unwrap())
    });
    Some(InTurn { model: served.as_ref()?, _turn: turn })
}

/// A model of a test's own.
fn served_with(options: LoadOptions) -> InTurn<Served> {
    let turn = cores::turn();
    InTurn { model: start(options).unwrap(), _turn: turn }
}

fn greedy(max_tokens: u32) -> GenerationParams {
    GenerationParams { sampling: Sampling::GREEDY, max_tokens, ..GenerationParams::default() }
}

impl Served {
    fn tokenizer(&self) -> &dyn Tokenizer {
        self.handle.tokenizer().as_ref()
    }

    fn chat(&self, user: &str) -> Vec<TokenId> {
        let text = format!("<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n");
        self.tokenizer().tokenize(&text, Specials::Recognise)
    }

    fn submit(&self, prompt: Vec<TokenId>, params: GenerationParams) -> Events {
        self.handle.submit(Job { prompt, params, arrived: Instant::now() }).unwrap()
    }

    fn answer(&self, prompt: Vec<TokenId>, params: GenerationParams) -> Answer {
        let mut events = self.submit(prompt, params);
        let mut answer = Answer::default();
        while let Some(event) = events.blocking_next() {
            match event {
                Event::Text(chunk) => {
                    answer.text += &chunk.text;
                    answer.n_chunks += 1;
                    answer.logprobs.extend(chunk.logprobs);
                }
                Event::Done(done) => answer.done = Some(done),
                Event::Failed(failure) => panic!("{failure}"),
                Event::Started { .. } | Event::PromptDone { .. } => {}
            }
        }
        answer
    }
}

#[derive(Default)]
struct Answer {
    text: String,
    n_chunks: usize,
    logprobs: Vec<spark::serve::inference::TokenLogprob>,
    done: Option<Completion>,
}

impl Answer {
    fn done(&self) -> &Completion {
        self.done.as_ref().unwrap()
    }
}

#[test]
fn greedy_gives_the_same_sensible_text_every_time() {
    let Some(served) = served() else { return };
    let ask = || served.answer(served.chat("What is the capital of France?"), greedy(32));
    let (first, second) = (ask(), ask());
    assert!(first.text.contains("Paris"), "{}", first.text);
    assert_eq!(first.text, second.text);
    assert_eq!(first.done().reason, FinishReason::Stop);
    // Every token but the last, which ended the answer, is a chunk of its own.
    assert_eq!(first.n_chunks + 1, first.done().n_generated as usize);
}

#[test]
fn lengths_are_exact() {
    let Some(served) = served() else { return };
    for max_tokens in [1, 2, 3, 16, 200] {
        let params = GenerationParams { ignore_eos: true, ..greedy(max_tokens) };
        let answer = served.answer(served.chat("Hello"), params);
        assert_eq!(answer.done().n_generated, max_tokens);
        assert_eq!(answer.done().reason, FinishReason::Length);
    }
}

#[test]
fn facts_of_the_model() {
    let Some(served) = served() else { return };
    let (info, settings) = (served.tokenizer().info(), served.tokenizer().settings());
    assert_eq!((info.n_layer, info.n_embd, info.n_head, info.n_head_kv), (30, 576, 9, 3));
    assert_eq!((info.n_vocab, info.n_ctx_train), (49152, 8192));
    assert_eq!(info.n_params, 134_515_008);
    assert_eq!(info.file_type, "BF16");
    assert_eq!(settings.n_ctx, 1024);
    // 30 layers × 3 heads × 64 × 2 (key and value) × 2 bytes.
    assert_eq!(settings.kv_bytes_per_token, 23_040);
    assert_eq!(settings.kv_bytes, 23_040 * 1024);
    assert!(info.eog.len() > 1, "several tokens end an answer: {:?}", info.eog);
    assert!(info.eog.iter().all(|&token| served.tokenizer().is_eog(token)));
    // The output shares the table of embeddings, so all of it is read for each token.
    assert_eq!(info.bytes_read_per_token, info.size_bytes);
    // Asked for was `auto`.
    assert_eq!(settings.flash_attn, "on");
    assert!(info.chat_template.as_ref().unwrap().contains("im_start"));
    assert!(settings.compute_bytes > 0);
}

/// What llama.cpp logs of one model's buffers is never taken for another's.
#[test]
fn models_loaded_at_once_each_know_their_own_memory() {
    let Some(path) = small_model() else { return };
    let sizes = [256, 512, 768, 1024];
    let at_once = Barrier::new(sizes.len());
    let _turn = cores::turn();
    let load = |ctx| {
        at_once.wait();
        start(LoadOptions { ctx: Some(ctx), ..options(path.clone()) }).unwrap()
    };
    let kv_bytes = thread::scope(|scope| {
        let loading = sizes.map(|ctx| scope.spawn(move || load(ctx)));
        loading.map(|loading| loading.join().unwrap().tokenizer().settings().kv_bytes)
    });
    assert_eq!(kv_bytes, sizes.map(|ctx| 23_040 * u64::from(ctx)));
}

#[test]
fn special_tokens_are_recognised_only_where_that_is_asked_for() {
    let Some(served) = served() else { return };
    let tokenizer = served.tokenizer();
    let spelled = "<|im_end|>";
    assert_eq!(tokenizer.tokenize(spelled, Specials::Recognise).len(), 1);
    assert!(tokenizer.tokenize(spelled, Specials::AsText).len() > 1);
    for text in ["", "Hello, world", "日本語 και ελληνικά", "a\0b", "\n\n  x", "😀<|im_end|>"]
    {
        let tokens = tokenizer.tokenize(text, Specials::AsText);
        assert_eq!(tokenizer.detokenize(&tokens, Specials::AsText), text);
    }
    for outside in [-1, 49152, i32::MAX, i32::MIN] {
        assert_eq!(tokenizer.detokenize(&[outside], Specials::Recognise), "");
    }
}

#[test]
fn long_texts_of_one_letter_do_not_end_the_process() {
    let Some(served) = served() else { return };
    for letter in ["a", " ", "\n", "1", "!", "é", "字", "'"] {
        let text = letter.repeat(200_000);
        let tokens = served.tokenizer().tokenize(&text, Specials::AsText);
        let longest = served.tokenizer().info().longest_piece_bytes as usize;
        assert!(tokens.len() >= text.len() / longest, "{letter:?}");
    }
}

#[test]
fn log_probabilities_are_ordered_and_greedy_takes_the_first() {
    let Some(served) = served() else { return };
    let params = GenerationParams { logprobs: Some(Logprobs { top: 5 }), ..greedy(8) };
    let answer = served.answer(served.chat("Count to three."), params);
    assert_eq!(answer.logprobs.len(), answer.n_chunks);
    for logprob in &answer.logprobs {
        assert_eq!(logprob.top.len(), 5);
        assert_eq!(logprob.top[0].id, logprob.token.id);
        assert!(logprob.top.is_sorted_by(|a, b| a.logprob >= b.logprob));
        let sum: f32 = logprob.top.iter().map(|candidate| candidate.logprob.exp()).sum();
        assert!(sum <= 1.0 + 1e-4, "{sum}");
        assert_eq!(logprob.token.logprob, logprob.top[0].logprob);
    }
}

#[test]
fn a_seed_decides_the_draws() {
    let Some(served) = served() else { return };
    let draw = |seed| {
        let sampling = Sampling { seed: Some(seed), top_p: 0.9, ..Sampling::default() };
        let params = GenerationParams { sampling, ..greedy(24) };
        served.answer(served.chat("Tell me a story."), params).text
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn penalties_and_bias_change_the_text() {
    let Some(served) = served() else { return };
    let prompt = || served.chat("Say the word yes ten times.");
    let plain = served.answer(prompt(), greedy(24));
    let first = served.tokenizer().tokenize(&plain.text, Specials::AsText)[0];
    let banned = GenerationParams { logit_bias: vec![(first, -100.0)], ..greedy(24) };
    assert_ne!(served.answer(prompt(), banned).text, plain.text);
    let penalties = Penalties { frequency: 2.0, presence: 2.0, ..Penalties::default() };
    let penalised = GenerationParams { penalties, ignore_eos: true, ..greedy(24) };
    let unpenalised = GenerationParams { ignore_eos: true, ..greedy(24) };
    assert_ne!(served.answer(prompt(), penalised).text, served.answer(prompt(), unpenalised).text);
}

#[test]
fn a_schema_is_kept_to() {
    let Some(served) = served() else { return };
    let schema = r#"{"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
        "people": {"type": "integer"}}, "required": ["city", "people"]}"#;
    let grammar = served.tokenizer().grammar(schema).unwrap();
    for sampling in [Sampling::GREEDY, Sampling { seed: Some(5), ..Sampling::default() }] {
        let grammar = Some(grammar.clone());
        let params = GenerationParams { grammar, sampling, ..greedy(200) };
        let answer = served.answer(served.chat("Describe Paris as JSON."), params);
        assert_eq!(answer.done().reason, FinishReason::Stop, "{}", answer.text);
        let value: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
        assert!(value["city"].is_string() && value["people"].is_number(), "{value}");
    }
    let ends = GenerationParams { grammar: Some(grammar), ignore_eos: true, ..greedy(200) };
    let ended = served.answer(served.chat("Describe Paris as JSON."), ends);
    assert_eq!(ended.done().reason, FinishReason::Stop, "nothing may follow: {}", ended.text);
}

#[test]
fn schemas_that_make_no_grammar_are_refused_and_none_ends_the_process() {
    let Some(served) = served() else { return };
    let deep = |open: &str, close: &str, n| format!("{}{}", open.repeat(n), close.repeat(n));
    let bad = [
        String::new(),
        "{".to_owned(),
        r#"{"type": "no such type"}"#.to_owned(),
        r##"{"$ref": "#/nowhere"}"##.to_owned(),
        deep(r#"{"items":"#, "}", 20_000),
        format!(r#"{{"type": "string", "pattern": "^{}$"}}"#, deep("(", ")", 20_000)),
        format!(r#"{{"const": "{}"}}"#, "x".repeat(100_000)),
        "{\"const\": \"\0\"}".to_owned(),
    ];
    for schema in &bad {
        let head: String = schema.chars().take(60).collect();
        assert!(served.tokenizer().grammar(schema).is_err(), "{head}");
    }
    let odd = [
        r##"{"$ref": "#"}"##,
        r#"{"type": "array", "minItems": 1000000000}"#,
        r#"{"type": "string", "minLength": 1000000000}"#,
        r#"{"type": "string", "pattern": "^(((("}"#,
        r#"{"type": "string", "pattern": "^((((((((((a{2,9}){2,9}){2,9}))))))))$"}"#,
        r#"{"anyOf": []}"#,
        r#"{"enum": []}"#,
        "{}",
        "true",
        "[]",
        "null",
        "3",
    ];
    for schema in odd {
        if let Ok(grammar) = served.tokenizer().grammar(schema) {
            let params = GenerationParams { grammar: Some(grammar), ..greedy(4) };
            served.answer(served.chat("Hello"), params);
        }
    }
}

#[test]
fn a_prompt_longer_than_a_batch_is_computed_in_pieces() {
    let Some(path) = small_model() else { return };
    let small = LoadOptions { ctx: Some(512), batch: Some(64), ubatch: Some(32), ..options(path) };
    let served = served_with(small);
    assert_eq!(served.tokenizer().settings().n_ubatch, 32);
    let words = "word ".repeat(200);
    let answer = served.answer(served.chat(&words), greedy(4));
    assert!(answer.done().n_prompt > 200);
    let n_ctx = served.tokenizer().settings().n_ctx as usize;
    for room in [1, 2, 31, 32, 33] {
        let n = n_ctx - room;
        let prompt: Vec<TokenId> = served.chat(&words).into_iter().cycle().take(n).collect();
        let params = GenerationParams { ignore_eos: true, ..greedy(u32::MAX) };
        let n_generated = served.answer(prompt, params.clone()).done().n_generated;
        assert_eq!(n_generated as usize, room);
    }
}

#[test]
fn a_hang_up_in_a_prefill_leaves_the_next_answer_as_it_was() {
    let Some(served) = served() else { return };
    let ask = || served.answer(served.chat("What is the capital of Italy?"), greedy(16)).text;
    let before = ask();
    for _ in 0..3 {
        let mut events = served.submit(served.chat(&"word ".repeat(900)), greedy(100));
        assert!(matches!(events.blocking_next(), Some(Event::Started { .. })));
        drop(events);
        let mut events = served.submit(served.chat("Tell me a long story."), greedy(500));
        while !matches!(events.blocking_next(), Some(Event::Text(_))) {}
        drop(events);
        assert_eq!(ask(), before);
    }
}

#[test]
fn a_prompt_cache_reuses_the_common_beginning() {
    let Some(path) = small_model() else { return };
    let served = served_with(LoadOptions { ctx: Some(512), prompt_cache: true, ..options(path) });
    let prompt = served.chat("What is the capital of France?");
    let first = served.answer(prompt.clone(), greedy(16));
    let second = served.answer(prompt.clone(), greedy(16));
    assert_eq!(first.done().n_cached, 0);
    assert_eq!(second.done().n_cached as usize, prompt.len() - 1);
    assert_eq!(first.text, second.text);
}

fn load_error(options: LoadOptions) -> LoadError {
    let _turn = cores::turn();
    start(options).err().unwrap()
}

#[test]
fn files_that_can_not_be_served_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let missing = load_error(LoadOptions::new(at("missing.gguf")));
    assert!(matches!(missing, LoadError::Missing { .. }), "{missing}");
    fs::write(at("text.gguf"), "not a model").unwrap();
    let text = load_error(LoadOptions::new(at("text.gguf")));
    assert!(matches!(text, LoadError::NotGguf { .. }), "{text}");
    let Some(path) = small_model() else { return };
    for n in [100, 100_000, 50_000_000] {
        copy_head(&path, &at("cut.gguf"), n);
        let cut = load_error(LoadOptions::new(at("cut.gguf")));
        assert!(matches!(cut, LoadError::Truncated { .. }), "{n}: {cut}");
        assert!(cut.is_bad_input());
    }
}

fn copy_head(from: &Path, to: &Path, n: u64) {
    let mut head = Vec::new();
    File::open(from).unwrap().take(n).read_to_end(&mut head).unwrap();
    File::create(to).unwrap().write_all(&head).unwrap();
}

#[test]
fn a_context_that_no_memory_holds_is_refused_with_both_figures() {
    let Some(path) = small_model() else { return };
    let options = LoadOptions { ctx: Some(1 << 30), ..LoadOptions::new(path) };
    match load_error(options) {
        LoadError::DoesNotFit { needed_bytes, available_bytes, .. } => {
            assert!(needed_bytes > 1 << 44, "{needed_bytes}");
            assert!(available_bytes > 1 << 20 && available_bytes < needed_bytes);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let Some(path) = small_model() else { return };
    for change in [
        |options: &mut LoadOptions| options.ubatch = Some(0),
        |options: &mut LoadOptions| options.batch = Some(0),
        |options: &mut LoadOptions| options.threads = Some(0),
        |options: &mut LoadOptions| options.ctx = Some(u32::MAX),
    ] {
        let mut options = LoadOptions::new(&path);
        change(&mut options);
        let error = load_error(options);
        assert!(matches!(error, LoadError::Settings(_)), "{error}");
    }
}

#[test]
fn loading_stops_when_it_is_told_to() {
    let Some(path) = small_model() else { return };
    let _turn = cores::turn();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (told, wait) = std::sync::mpsc::channel::<()>();
    let load = move |stop: &std::sync::Arc<_>| {
        wait.recv().unwrap();
        load(&LoadOptions::new(path), stop)
    };
    let mut thread = spawn(load, 1).unwrap();
    thread.drain();
    told.send(()).unwrap();
    assert_eq!(runtime.block_on(thread.ready()).err(), Some(LoadError::Cancelled));
    runtime.block_on(thread.shut_down(PATIENCE)).unwrap();
}
