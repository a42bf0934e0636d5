//! The cursor that deals out a file's prompts, one for each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::file::{Prompt, PromptFile};
use super::sent::{Digest, SentPrompts, digest, digest_of_all};

/// Whether one server may see the same prompt twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptReuse {
    /// It may not: from the second pass on, a salt line makes each prompt a new one.
    #[default]
    Forbid,
    /// It may: what a prompt cache does is what is measured.
    Allow,
}

/// Deals out the prompts of a file, in order, for the life of one server. Clones share a position.
#[derive(Debug, Clone)]
pub struct PromptCursor {
    deck: Arc<Deck>,
}

#[derive(Debug)]
struct Deck {
    file: PromptFile,
    order: Vec<u32>,
    /// Of each prompt of the file.
    digests: Vec<Digest>,
    reuse: PromptReuse,
    dealt: Arc<AtomicU64>,
    sent: SentPrompts,
}

/// One prompt that was dealt out.
#[derive(Debug, Clone)]
pub struct Draw {
    deck: Arc<Deck>,
    /// Its position in the file.
    pub prompt_index: u32,
    /// How often the file has been gone through, this time included: from 1.
    pub pass: u64,
    /// Whether the server has been sent the very same text before.
    pub is_repeated: bool,
}

impl PromptCursor {
    /// A cursor at the start of a file, in file order or in the order that a seed gives, for a server
    /// that has been sent nothing.
    pub fn new(file: PromptFile, shuffle_seed: Option<u64>, reuse: PromptReuse) -> Self {
        Self::for_server(file, shuffle_seed, reuse, SentPrompts::default())
    }

    /// The same, for a server that has been sent prompts: if they were dealt from the same file in
    /// the same order, it goes on from there.
    pub fn for_server(
        file: PromptFile,
        shuffle_seed: Option<u64>,
        reuse: PromptReuse,
        sent: SentPrompts,
    ) -> Self {
        let n = u32::try_from(file.prompts.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..n).collect();
        if let Some(seed) = shuffle_seed {
            shuffle(&mut order, seed);
        }
        let digests: Vec<Digest> = file.prompts.iter().map(digest).collect();
        let dealt = sent.dealt(digest_of_all(order.iter().map(|&at| digests[at as usize])));
        Self { deck: Arc::new(Deck { file, order, digests, reuse, dealt, sent }) }
    }

    /// The file that it deals from.
    pub fn file(&self) -> &PromptFile {
        &self.deck.file
    }

    /// The next prompt; after the last one the first again.
    pub fn draw(&self) -> Draw {
        let dealt = self.deck.dealt.fetch_add(1, Ordering::Relaxed);
        let n = self.deck.order.len() as u64;
        let place = usize::try_from(dealt % n).expect("less than a length");
        let pass = dealt / n + 1;
        let prompt_index = self.deck.order[place];
        let mut draw =
            Draw { deck: Arc::clone(&self.deck), prompt_index, pass, is_repeated: false };
        let salt = if draw.is_salted() { pass } else { 0 };
        let digest = self.deck.digests[prompt_index as usize];
        draw.is_repeated = self.deck.sent.note(digest, salt);
        draw
    }
}

impl Draw {
    /// The prompt itself.
    pub fn prompt(&self) -> &Prompt {
        &self.deck.file.prompts[self.prompt_index as usize]
    }

    /// The salt line that goes in front of it: the same for everybody, different in each pass.
    pub fn salt(&self) -> Option<String> {
        self.is_salted().then(|| format!("[pass {}]\n", self.pass))
    }

    fn is_salted(&self) -> bool {
        self.pass > 1 && self.deck.reuse == PromptReuse::Forbid
    }
}

/// Fisher–Yates over a generator whose stream is specified: the same seed gives the same order
/// for ever. The modulo's bias is under n / 2⁶⁴.
fn shuffle(order: &mut [u32], seed: u64) {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    for last in (1..order.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        order.swap(last, usize::try_from(other).expect("not above an index"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(prompts: impl IntoIterator<Item = Prompt>) -> PromptFile {
        PromptFile { prompts: prompts.into_iter().collect(), ..PromptFile::of_one(text("")) }
    }

    fn text(text: &str) -> Prompt {
        Prompt::Text(text.to_owned())
    }

    fn numbered(n: usize) -> PromptFile {
        file((0..n).map(|i| text(&format!("p{i}"))))
    }

    fn cursor(n: usize, seed: Option<u64>, reuse: PromptReuse) -> PromptCursor {
        PromptCursor::new(numbered(n), seed, reuse)
    }

    fn repeated(cursor: &PromptCursor, n: usize) -> Vec<bool> {
        (0..n).map(|_| cursor.draw().is_repeated).collect()
    }

    #[test]
    fn repetitions_are_known() {
        let message = |role, content| json!({"role": role, "content": content});
        let system = Prompt::Messages(vec![message("system", "s")]);
        let same = Prompt::Messages(vec![message("user", "a")]);
        let file = file([text("a"), system, text("a"), same]);
        let dealt = |reuse| repeated(&PromptCursor::new(file.clone(), None, reuse), 6);
        let once = [false, false, true, true];
        assert_eq!(
            dealt(PromptReuse::Forbid),
            [&once[..], &once[..2]].concat(),
            "the same conversation in another shape is the same, and a salt makes it new"
        );
        assert_eq!(dealt(PromptReuse::Allow), [&once[..], &[true, true]].concat());
    }

    #[test]
    fn a_server_is_never_sent_a_prompt_twice_whoever_deals() {
        let sent = SentPrompts::default();
        let for_server =
            |file| PromptCursor::for_server(file, None, PromptReuse::Forbid, sent.clone());
        let first = for_server(numbered(3));
        assert_eq!(repeated(&first, 2), [false, false]);
        let again = for_server(numbered(3));
        let draws: Vec<Draw> = (0..3).map(|_| again.draw()).collect();
        assert_eq!(draws.iter().map(|draw| draw.prompt_index).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(draws.iter().map(|draw| draw.pass).collect::<Vec<_>>(), [1, 2, 2]);
        assert!(draws.iter().all(|draw| !draw.is_repeated));
        // Another file with some of the same prompts: known, if it can't be helped.
        assert_eq!(repeated(&for_server(numbered(4)), 4), [true, true, true, false]);
        assert_eq!(repeated(&for_server(file([text("new")])), 1), [false]);
        assert_eq!(repeated(&cursor(3, None, PromptReuse::Forbid), 3), [false; 3]);
    }

    #[test]
    fn a_second_pass_is_salted_in_front_of_everything() {
        let prompts = cursor(2, None, PromptReuse::Forbid);
        let draws: Vec<_> = (0..5).map(|_| prompts.draw()).collect();
        let salts: Vec<_> = draws.iter().map(Draw::salt).collect();
        let passes: Vec<_> = salts.iter().map(Option::as_deref).collect();
        let (two, three) = (Some("[pass 2]\n"), Some("[pass 3]\n"));
        assert_eq!(passes, [None, None, two, two, three]);
        assert_eq!(draws[2].prompt().text(two), "[pass 2]\np0");
        let conversation = Prompt::Messages(vec![
            json!({"role": "system", "content": [{"type": "text", "text": "s"}]}),
            json!({"role": "user", "content": "u"}),
        ]);
        let salted = conversation.messages(two);
        assert_eq!(salted[0]["content"][0]["text"], "[pass 2]\n");
        assert_eq!(salted[1]["content"], "u");
        let reused = cursor(1, None, PromptReuse::Allow);
        assert_eq!((reused.draw().salt(), reused.draw().salt()), (None, None));
    }

    #[test]
    fn a_seed_gives_one_order_for_ever() {
        let order = |seed| {
            let prompts = cursor(8, seed, PromptReuse::Forbid);
            (0..8).map(|_| prompts.draw().prompt_index).collect::<Vec<_>>()
        };
        assert_eq!(order(None), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(order(Some(1)), order(Some(1)));
        assert_ne!(order(Some(1)), order(Some(2)));
        let mut sorted = order(Some(1));
        sorted.sort_unstable();
        assert_eq!(sorted, order(None));
    }
}
