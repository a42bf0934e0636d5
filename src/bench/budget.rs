//! `--max-cost`: what all requests of a run may cost together at providers that charge by the token.
//!
//! Before a request is sent, the most that it can cost is set aside; when it has ended, what it did
//! cost takes that place. So the limit is never passed, whatever the answers are.

use std::sync::{Arc, Mutex, PoisonError};

use super::config::{Config, Price};
use super::prompts::PromptFile;
use crate::measure::trace::{RequestTrace, Tokens};

/// What a template puts around a prompt, in tokens, at most: the longest there are add a system
/// prompt of their own and a date.
const TEMPLATE_TOKENS_MAX: u64 = 256;

/// The money of a whole run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    max_usd: Option<f64>,
    used: Arc<Mutex<Used>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    spent_usd: f64,
    set_aside_usd: f64,
}

impl Budget {
    /// A run that may cost so much; `None`: any amount, which is counted all the same.
    pub fn new(max_usd: Option<f64>) -> Self {
        Self { max_usd, ..Self::default() }
    }

    /// The limit.
    pub fn max_usd(&self) -> Option<f64> {
        self.max_usd
    }

    /// What the requests that have ended did cost.
    pub fn spent_usd(&self) -> f64 {
        self.lock().spent_usd
    }

    /// The money for a target's requests; `None` where it has no price.
    pub fn purse(&self, config: &Config, prompts: &PromptFile) -> Option<Purse> {
        let price = config.target.price.clone()?;
        // A token is at least a byte.
        let longest = prompts.prompts.iter().map(|prompt| prompt.text(None).len()).max();
        let prompt_max = longest.unwrap_or(0) as u64 + TEMPLATE_TOKENS_MAX;
        let output_max = u64::from(config.workload.max_tokens.get());
        let request_usd_max = price.cost_usd(prompt_max, 0, output_max);
        Some(Purse { budget: self.clone(), price, request_usd_max })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Used> {
        // Sums are whole after each statement: a panic elsewhere leaves them usable.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The money for one target's requests.
#[derive(Debug, Clone)]
pub struct Purse {
    budget: Budget,
    price: Price,
    request_usd_max: f64,
}

impl Purse {
    /// Sets aside the most that one request can cost; false if there is not enough left.
    pub fn set_aside(&self) -> bool {
        let mut used = self.budget.lock();
        let after = used.spent_usd + used.set_aside_usd + self.request_usd_max;
        let enough = self.budget.max_usd.is_none_or(|max| after <= max);
        if enough {
            used.set_aside_usd += self.request_usd_max;
        }
        enough
    }

    /// A request for which money was set aside has ended.
    pub fn settle(&self, trace: &RequestTrace) {
        let usd = self.cost_usd(&trace.tokens);
        let mut used = self.budget.lock();
        used.set_aside_usd = (used.set_aside_usd - self.request_usd_max).max(0.0);
        used.spent_usd += usd;
    }

    /// By the server's own count; without one, text that came may have cost the most, and where none
    /// came nothing is charged.
    fn cost_usd(&self, tokens: &Tokens) -> f64 {
        match (tokens.n_prompt, tokens.n_out) {
            (Some(prompt), Some(output)) => {
                self.price.cost_usd(prompt, tokens.n_cached.unwrap_or(0), output)
            }
            _ if tokens.n_chunks > 0 => self.request_usd_max,
            _ => 0.0,
        }
    }
}

/// An amount of money: cents, and two digits of it where it is less than that.
pub fn usd(amount: f64) -> String {
    let mut decimals = 2;
    let mut unit = 0.1;
    while decimals < 8 && amount > 0.0 && amount < unit {
        decimals += 1;
        unit /= 10.0;
    }
    format!("{amount:.decimals$} USD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_are_not_nothing() {
        for (amount, text) in [
            (0.0, "0.00 USD"),
            (12.345, "12.35 USD"),
            (0.1, "0.10 USD"),
            (0.0123, "0.012 USD"),
            (0.000_08, "0.000080 USD"),
            (1e-12, "0.00000000 USD"),
        ] {
            assert_eq!(usd(amount), text);
        }
    }
    use crate::bench::config::values::NonNegative;

    fn purse(max_usd: f64) -> Purse {
        let usd = |price| NonNegative::try_from(price).unwrap();
        let price = Price {
            input_per_mtok: usd(1.0),
            cached_per_mtok: None,
            output_per_mtok: usd(2.0),
            date: None,
        };
        Purse { budget: Budget::new(Some(max_usd)), price, request_usd_max: 1.0 }
    }

    #[test]
    fn what_may_be_spent_is_set_aside_before_and_given_back_after() {
        let purse = purse(2.5);
        assert!(purse.set_aside() && purse.set_aside());
        assert!(!purse.set_aside(), "three requests may cost 3 USD");
        let tokens = Tokens { n_prompt: Some(100_000), n_out: Some(50_000), ..Tokens::default() };
        let cost = purse.cost_usd(&tokens);
        assert!((cost - 0.2).abs() < 1e-12);
        let mut used = purse.budget.lock();
        used.set_aside_usd -= 1.0;
        used.spent_usd += cost;
        drop(used);
        assert!(purse.set_aside(), "0.2 spent, two may cost 2 USD");
        assert!((purse.budget.spent_usd() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn without_usage_the_most_is_assumed_once_there_was_text() {
        let purse = purse(1.0);
        assert_eq!(
            purse.cost_usd(&Tokens { n_chunks: 1, n_out: Some(1), ..Tokens::default() }),
            1.0
        );
        assert_eq!(purse.cost_usd(&Tokens::default()), 0.0);
    }
}
