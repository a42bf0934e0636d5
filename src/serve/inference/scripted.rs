//! A model that answers from a script: drives the real worker in tests, without an engine.
//!
//! Its vocabulary is the 256 bytes, four special tokens, and the pieces of its answers as they come
//! up. It can be held at any step by a [`Gate`], and told to fail or to panic.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::model::{
    AppliedSettings, GrammarError, GrammarMatcher, Model, ModelError, ModelInfo, Output, Specials,
    TokenId, Tokenizer,
};
use super::params::Grammar;

/// Beginning of sequence, spelled `<s>`.
pub const BOS: TokenId = 256;
/// End of sequence, spelled `</s>`.
pub const EOS: TokenId = 257;
/// A second token that ends the answer, spelled `<|im_end|>`.
pub const END_OF_TURN: TokenId = 258;
/// Spelled `<|im_start|>`.
pub const START_OF_TURN: TokenId = 259;

const SPECIALS: [(TokenId, &str); 4] =
    [(BOS, "<s>"), (EOS, "</s>"), (END_OF_TURN, "<|im_end|>"), (START_OF_TURN, "<|im_start|>")];
const FIRST_WORD: usize = 260;
const N_VOCAB: usize = 4096;
/// The logit of what the script wants, so far over the rest that even at temperature 2 all the
/// others together are drawn once in 10⁸ tokens: a script is obeyed, whatever the seed.
const WISH: f32 = 80.0;
/// What is drawn when the answer is over and its end is banned.
const FILLER: TokenId = b'.' as TokenId;

const CHAT_TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// What the model does with a prompt.
#[derive(Debug, Clone)]
pub enum Reply {
    /// One token for each piece, then the end.
    Pieces(Vec<Vec<u8>>),
    /// The engine reports an error.
    Error(String),
    /// The engine panics.
    Panic(String),
}

impl Reply {
    /// One token for each word, with the space before it.
    pub fn words(text: &str) -> Self {
        Self::Pieces(text.split_inclusive(' ').map(|word| word.as_bytes().to_vec()).collect())
    }
}

/// From the prompt's text, special tokens spelled out, to what the model does.
pub type Script = Box<dyn FnMut(&str) -> Reply + Send>;

/// The model.
pub struct ScriptedModel {
    tokenizer: Arc<ScriptedTokenizer>,
    script: Script,
    gate: Gate,
    sequence: Vec<TokenId>,
    reply: Vec<TokenId>,
    n_replied: usize,
    logits: Vec<f32>,
}

impl ScriptedModel {
    /// A model with a context of 512 tokens and an ubatch of 16.
    pub fn new(script: impl FnMut(&str) -> Reply + Send + 'static) -> Self {
        Self {
            tokenizer: Arc::new(ScriptedTokenizer::new()),
            script: Box::new(script),
            gate: Gate::open(),
            sequence: Vec::new(),
            reply: Vec::new(),
            n_replied: 0,
            logits: vec![0.0; N_VOCAB],
        }
    }

    /// The same model with other settings.
    pub fn with_settings(mut self, change: impl FnOnce(&mut AppliedSettings)) -> Self {
        change(&mut Arc::get_mut(&mut self.tokenizer).expect("nobody shares it yet").settings);
        self
    }

    /// The same model with other facts.
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut Arc::get_mut(&mut self.tokenizer).expect("nobody shares it yet").info);
        self
    }

    /// The same model with a tokenizer that shows `watch` each text first, and waits for it.
    pub fn with_watched_tokenizer(mut self, watch: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Arc::get_mut(&mut self.tokenizer).expect("nobody shares it yet").watch = Box::new(watch);
        self
    }

    /// The same model, held by a gate.
    pub fn with_gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    fn begin_reply(&mut self) -> Result<(), ModelError> {
        let prompt = self.tokenizer.detokenize(&self.sequence, Specials::Recognise);
        match (self.script)(&prompt) {
            Reply::Pieces(pieces) => {
                self.reply = pieces.iter().map(|piece| self.tokenizer.word(piece)).collect();
                self.n_replied = 0;
                Ok(())
            }
            Reply::Error(message) => Err(ModelError::Engine(message)),
            Reply::Panic(message) => panic!("{message}"),
        }
    }
}

impl Model for ScriptedModel {
    fn tokenizer(&self) -> Arc<dyn Tokenizer> {
        Arc::clone(&self.tokenizer) as Arc<dyn Tokenizer>
    }

    fn rewind(&mut self, n_keep: usize) -> Result<usize, ModelError> {
        self.sequence.truncate(n_keep);
        Ok(n_keep)
    }

    fn eval(
        &mut self,
        tokens: &[TokenId],
        output: Output,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), ModelError> {
        let settings = &self.tokenizer.settings;
        assert!(!tokens.is_empty() && tokens.len() <= settings.n_ubatch as usize, "one ubatch");
        self.gate.pass(tokens.len(), cancelled)?;
        self.sequence.extend_from_slice(tokens);
        assert!(self.sequence.len() <= settings.n_ctx as usize, "within the context");
        if output == Output::None {
            return Ok(());
        }
        let continues = self.reply.get(self.n_replied).is_some_and(|&token| tokens == [token]);
        let fills = self.n_replied >= self.reply.len() && tokens == [FILLER];
        if continues {
            self.n_replied += 1;
        } else if !fills || self.reply.is_empty() {
            self.begin_reply()?;
        }
        self.logits.fill(0.0);
        let wish = |token: TokenId| usize::try_from(token).expect("ids are not negative");
        self.logits[wish(FILLER)] = WISH / 2.0;
        match self.reply.get(self.n_replied) {
            Some(&token) => self.logits[wish(token)] = WISH,
            None => {
                self.logits[wish(EOS)] = WISH;
                self.logits[wish(END_OF_TURN)] = 0.75 * WISH;
            }
        }
        Ok(())
    }

    fn logits(&mut self) -> &mut [f32] {
        &mut self.logits
    }

    fn matcher(&self, _: &Grammar) -> Result<Box<dyn GrammarMatcher>, ModelError> {
        Ok(Box::new(AnythingGoes))
    }
}

/// The script is the grammar.
struct AnythingGoes;

impl GrammarMatcher for AnythingGoes {
    fn allows(&mut self, _: TokenId) -> bool {
        true
    }
    fn mask(&mut self, _: &mut [f32]) {}
    fn accept(&mut self, _: TokenId) -> Result<(), ModelError> {
        Ok(())
    }
}

/// Bytes, special tokens, and the pieces of answers.
struct ScriptedTokenizer {
    info: ModelInfo,
    settings: AppliedSettings,
    words: Mutex<Words>,
    watch: Watch,
}

/// Sees each text before it is tokenised.
type Watch = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Words {
    pieces: Vec<Vec<u8>>,
    ids: HashMap<Vec<u8>, TokenId>,
}

impl ScriptedTokenizer {
    fn new() -> Self {
        let info = ModelInfo {
            path: "scripted.gguf".into(),
            name: Some("Scripted".to_owned()),
            architecture: "scripted".to_owned(),
            file_type: "F32".to_owned(),
            n_ctx_train: 512,
            n_vocab: u32::try_from(N_VOCAB).expect("a small number"),
            chat_template: Some(CHAT_TEMPLATE.to_owned()),
            bos: Some(BOS),
            eos: Some(EOS),
            bos_text: "<s>".to_owned(),
            eos_text: "</s>".to_owned(),
            eog: vec![EOS, END_OF_TURN],
            ..ModelInfo::default()
        };
        let settings = AppliedSettings {
            n_ctx: 512,
            n_batch: 16,
            n_ubatch: 16,
            threads: 1,
            threads_batch: 1,
            device: "CPU".to_owned(),
            flash_attn: "off".to_owned(),
            kv_type: "f16".to_owned(),
            engine: "scripted".to_owned(),
            ..AppliedSettings::default()
        };
        Self { info, settings, words: Mutex::default(), watch: Box::new(|_| {}) }
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token of a piece; a new one if it was never seen.
    fn word(&self, piece: &[u8]) -> TokenId {
        if let [byte] = piece {
            return TokenId::from(*byte);
        }
        let mut words = self.words();
        if let Some(&id) = words.ids.get(piece) {
            return id;
        }
        let index = FIRST_WORD + words.pieces.len();
        assert!(index < N_VOCAB, "the script has too many different pieces");
        let id = TokenId::try_from(index).expect("a small number");
        words.pieces.push(piece.to_vec());
        words.ids.insert(piece.to_vec(), id);
        id
    }
}

impl Tokenizer for ScriptedTokenizer {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn settings(&self) -> &AppliedSettings {
        &self.settings
    }

    fn tokenize(&self, text: &str, specials: Specials) -> Vec<TokenId> {
        (self.watch)(text);
        let mut tokens = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let special = SPECIALS.iter().find(|(_, spelling)| rest.starts_with(spelling));
            match special.filter(|_| specials == Specials::Recognise) {
                Some((id, spelling)) => {
                    tokens.push(*id);
                    rest = &rest[spelling.len()..];
                }
                None => {
                    let (first, after) =
                        rest.split_at(rest.chars().next().map_or(1, char::len_utf8));
                    tokens.extend(first.bytes().map(TokenId::from));
                    rest = after;
                }
            }
        }
        tokens
    }

    fn piece(&self, token: TokenId, specials: Specials, out: &mut Vec<u8>) {
        if let Ok(byte) = u8::try_from(token) {
            out.push(byte);
        } else if let Some((_, spelling)) = SPECIALS.iter().find(|(id, _)| *id == token) {
            if specials == Specials::Recognise {
                out.extend_from_slice(spelling.as_bytes());
            }
        } else if let Ok(index) = usize::try_from(token) {
            let words = self.words();
            if let Some(piece) = index.checked_sub(FIRST_WORD).and_then(|i| words.pieces.get(i)) {
                out.extend_from_slice(piece);
            }
        }
    }

    fn grammar(&self, json_schema: &str) -> Result<Grammar, GrammarError> {
        Ok(Grammar::from_checked(json_schema.to_owned()))
    }
}

/// Holds a scripted model before each step until a test lets it go on.
#[derive(Clone)]
pub struct Gate(Arc<GateState>);

struct GateState {
    steps: Mutex<Steps>,
    changed: Condvar,
}

struct Steps {
    /// How many steps may still be made; `None` is any number.
    permits: Option<usize>,
    /// Whether a step waits now.
    waiting: bool,
    /// The number of tokens of each step that was made.
    made: Vec<usize>,
    hears: bool,
}

/// How often a held step asks whether it was cancelled.
const GATE_POLL: Duration = Duration::from_millis(1);

/// How long a test waits for a step before it gives up.
const GATE_PATIENCE: Duration = Duration::from_secs(60);

impl Gate {
    /// A gate that holds nothing.
    pub fn open() -> Self {
        Self::with(None)
    }

    /// A gate that holds every step until [`Self::allow`].
    pub fn closed() -> Self {
        Self::with(Some(0))
    }

    fn with(permits: Option<usize>) -> Self {
        let steps = Steps { permits, waiting: false, made: Vec::new(), hears: true };
        Self(Arc::new(GateState { steps: Mutex::new(steps), changed: Condvar::new() }))
    }

    /// The same gate for an engine that can't be aborted in a step, as on a GPU.
    pub fn deaf(self) -> Self {
        self.steps().hears = false;
        self
    }

    /// Lets `n` more steps through.
    pub fn allow(&self, n: usize) {
        let mut steps = self.steps();
        steps.permits = steps.permits.map(|permits| permits + n);
        self.0.changed.notify_all();
    }

    /// Lets all steps through from now on.
    pub fn open_for_good(&self) {
        self.steps().permits = None;
        self.0.changed.notify_all();
    }

    /// Blocks until the model waits at the gate.
    ///
    /// # Panics
    /// When it never does.
    pub fn wait_until_held(&self) {
        let steps = self.steps();
        let wait = self.0.changed.wait_timeout_while(steps, GATE_PATIENCE, |steps| !steps.waiting);
        let (_steps, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "the model never came to the gate");
    }

    /// The number of tokens of each step that was made so far.
    pub fn steps_made(&self) -> Vec<usize> {
        self.steps().made.clone()
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, n_tokens: usize, cancelled: &dyn Fn() -> bool) -> Result<(), ModelError> {
        let mut steps = self.steps();
        while steps.permits == Some(0) {
            if steps.hears && cancelled() {
                steps.waiting = false;
                return Err(ModelError::Cancelled);
            }
            steps.waiting = true;
            self.0.changed.notify_all();
            let wait = self.0.changed.wait_timeout(steps, GATE_POLL);
            (steps, _) = wait.unwrap_or_else(PoisonError::into_inner);
        }
        steps.waiting = false;
        steps.permits = steps.permits.map(|permits| permits - 1);
        steps.made.push(n_tokens);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_obeyed_at_any_temperature() {
        let mut model = ScriptedModel::new(|_| Reply::words("one two"));
        let wanted = model.tokenizer.word(b"one ");
        model.eval(&[BOS], Output::Logits, &|| false).unwrap();
        let logits = model.logits();
        let share = |token: usize| f64::from((logits[token] - WISH) / 2.0).exp();
        let wanted = usize::try_from(wanted).unwrap();
        let others: f64 = (0..N_VOCAB).filter(|token| *token != wanted).map(share).sum();
        assert!(others < 1e-8, "{others} of what the wanted token has");
    }
}
