//! What one server process has been sent: no prompt twice, through warm-up, levels, files and, on a
//! server that we do not restart, repeats. So no prompt meets a cache that an earlier one has filled.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::file::Prompt;

/// What tells one prompt, or one deck of them, from all others: half of a SHA-256 would do for
/// more requests than anybody sends.
pub(super) type Digest = u128;

/// The prompts that a server process has been sent. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SentPrompts {
    sent: Arc<Mutex<Sent>>,
}

#[derive(Debug, Default)]
struct Sent {
    /// Each prompt, with the pass whose salt stood in front of it.
    prompts: HashSet<(Digest, u64)>,
    /// How many prompts were dealt of each deck.
    dealt: HashMap<Digest, Arc<AtomicU64>>,
    /// How often prompts were made of each shape.
    made: HashMap<String, u64>,
}

impl SentPrompts {
    /// Notes a prompt under the salt of a pass, 0 for none; whether it had been sent before.
    pub(super) fn note(&self, prompt: Digest, salt: u64) -> bool {
        !self.lock().prompts.insert((prompt, salt))
    }

    /// How many prompts of a deck were dealt out: whoever has the same deck goes on from there.
    pub(super) fn dealt(&self, deck: Digest) -> Arc<AtomicU64> {
        Arc::clone(self.lock().dealt.entry(deck).or_default())
    }

    /// Counts the times that prompts of a shape are made for the server: how many times before this.
    pub fn made_before(&self, shape: String) -> u64 {
        let mut sent = self.lock();
        let made = sent.made.entry(shape).or_default();
        *made += 1;
        *made - 1
    }

    fn lock(&self) -> MutexGuard<'_, Sent> {
        // Whole after each statement above: a panic elsewhere leaves it usable.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for the same prompt, whatever its spelling in a file.
pub(super) fn digest(prompt: &Prompt) -> Digest {
    half(Sha256::digest(prompt.canonical()).as_slice())
}

/// Of a deck: its prompts in the order in which they are dealt.
pub(super) fn digest_of_all(prompts: impl Iterator<Item = Digest>) -> Digest {
    let mut hash = Sha256::new();
    for prompt in prompts {
        hash.update(prompt.to_le_bytes());
    }
    half(hash.finalize().as_slice())
}

fn half(sha256: &[u8]) -> Digest {
    let bytes = sha256.first_chunk().expect("a SHA-256 has 32 bytes");
    Digest::from_le_bytes(*bytes)
}
