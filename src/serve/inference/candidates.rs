//! Arithmetic over a vocabulary of logits: the largest, the sum, the likeliest few, a draw. Pure.

use super::params::Sampling;

/// The index of the largest logit, of equals the first; `None` if all are −∞ or not a number.
pub fn arg_max(logits: &[f32]) -> Option<usize> {
    // In two passes, since the compiler vectorises the search for a maximum but not for its place:
    // several times faster than one pass at 128 thousand tokens.
    let max = max(logits);
    if max == f32::NEG_INFINITY {
        return None;
    }
    logits.iter().position(|&logit| logit == max)
}

/// The largest logit; −∞ if there is none. Not-a-numbers are skipped.
fn max(logits: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = logits.chunks_exact(LANES);
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, logit);
        }
    }
    lanes.into_iter().fold(rest, larger)
}

/// ln Σ exp(logit), without overflow.
pub fn log_sum_exp(logits: &[f32]) -> f32 {
    let max = max(logits);
    let sum: f64 = logits.iter().map(|&logit| f64::from((logit - max).exp())).sum();
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm of at most 2³¹ fits well")]
    let log = sum.ln() as f32;
    max + log
}

/// The `n` largest logits and their indices, largest first, of equals the first.
pub fn top(logits: &[f32], n: usize) -> Vec<(usize, f32)> {
    if n == 0 {
        return Vec::new();
    }
    let mut all: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
    if n < all.len() {
        all.select_nth_unstable_by(n - 1, larger_first);
        all.truncate(n);
    }
    all.sort_unstable_by(larger_first);
    all
}

fn larger_first(a: &(usize, f32), b: &(usize, f32)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The tokens that have a chance, with their weights. Its memory is used again for each draw.
#[derive(Debug, Default)]
pub struct Shortlist {
    /// (index, logit), later (index, weight).
    entries: Vec<(usize, f32)>,
}

impl Shortlist {
    /// Narrows the vocabulary down: `top_k`, then temperature, then `top_p` and `min_p`, both of the
    /// distribution at that temperature. At least one token stays, if any has a chance.
    pub fn fill(&mut self, logits: &[f32], sampling: &Sampling) {
        let chance = |logit: f32| logit > f32::NEG_INFINITY;
        self.entries.clear();
        self.entries.extend(logits.iter().copied().enumerate().filter(|&(_, logit)| chance(logit)));
        if let Some(k) = sampling.top_k {
            self.keep_top(k.max(1) as usize);
        }
        let max = self.entries.iter().fold(f32::NEG_INFINITY, |max, &(_, logit)| max.max(logit));
        for (_, logit) in &mut self.entries {
            *logit = ((*logit - max) / sampling.temperature).exp();
        }
        if sampling.min_p > 0.0 {
            self.entries.retain(|&(_, weight)| weight >= sampling.min_p);
        }
        if sampling.top_p < 1.0 {
            self.keep_nucleus(sampling.top_p);
        }
    }

    /// The token at `at`, in [0, 1), of the cumulative distribution; `None` if there is none.
    pub fn draw(&self, at: f32) -> Option<usize> {
        let total: f64 = self.entries.iter().map(|&(_, weight)| f64::from(weight)).sum();
        let mut left = f64::from(at) * total;
        for &(id, weight) in &self.entries {
            left -= f64::from(weight);
            if left < 0.0 {
                return Some(id);
            }
        }
        // Rounding may leave a crumb: it belongs to the last one that has any weight.
        self.entries.iter().rev().find(|&&(_, weight)| weight > 0.0).map(|&(id, _)| id)
    }

    fn keep_top(&mut self, k: usize) {
        if k < self.entries.len() {
            self.entries.select_nth_unstable_by(k - 1, larger_first);
            self.entries.truncate(k);
        }
    }

    /// Keeps the fewest tokens whose weights together reach `top_p` of all, the likeliest first.
    fn keep_nucleus(&mut self, top_p: f32) {
        let total: f64 = self.entries.iter().map(|&(_, weight)| f64::from(weight)).sum();
        let wanted = f64::from(top_p) * total;
        // The nucleus is small and the vocabulary large, so only a growing head of it is sorted.
        let mut sorted = 0;
        let mut reached = 0.0;
        let mut head = 256;
        while sorted < self.entries.len() {
            let rest = &mut self.entries[sorted..];
            let take = head.min(rest.len());
            if take < rest.len() {
                rest.select_nth_unstable_by(take - 1, larger_first);
            }
            rest[..take].sort_unstable_by(larger_first);
            for at in sorted..sorted + take {
                reached += f64::from(self.entries[at].1);
                if reached >= wanted {
                    self.entries.truncate(at + 1);
                    return;
                }
            }
            sorted += take;
            head *= 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn logits() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(
            prop_oneof![8 => -20.0f32..20.0, 1 => Just(f32::NEG_INFINITY)],
            1..400,
        )
    }

    /// The slow and plain way: everything sorted, then cut.
    fn plain(logits: &[f32], sampling: &Sampling) -> Vec<usize> {
        let mut all: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
        all.retain(|&(_, logit)| logit > f32::NEG_INFINITY);
        all.sort_by(larger_first);
        if let Some(k) = sampling.top_k {
            all.truncate(k.max(1) as usize);
        }
        let max = all.first().map_or(0.0, |&(_, logit)| logit);
        let weight = |logit: f32| ((logit - max) / sampling.temperature).exp();
        all.retain(|&(_, logit)| weight(logit) >= sampling.min_p);
        let total: f64 = all.iter().map(|&(_, logit)| f64::from(weight(logit))).sum();
        let mut kept = Vec::new();
        let mut reached = 0.0;
        for (id, logit) in all {
            kept.push(id);
            reached += f64::from(weight(logit));
            if sampling.top_p < 1.0 && reached >= f64::from(sampling.top_p) * total * (1.0 - 1e-12)
            {
                break;
            }
        }
        kept.sort_unstable();
        kept
    }

    proptest! {
        #[test]
        fn arg_max_is_the_first_largest(logits in logits()) {
            let plain = logits.iter().enumerate()
                .filter(|(_, logit)| **logit > f32::NEG_INFINITY)
                .fold(None, |best: Option<(usize, f32)>, (id, &logit)| match best {
                    Some((_, max)) if logit <= max => best,
                    _ => Some((id, logit)),
                });
            prop_assert_eq!(arg_max(&logits), plain.map(|(id, _)| id));
        }

        #[test]
        fn top_is_the_head_of_the_sorted(logits in logits(), n in 0usize..30) {
            let mut all: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
            all.sort_by(larger_first);
            all.truncate(n);
            prop_assert_eq!(top(&logits, n), all);
        }

        #[test]
        fn the_shortlist_is_what_sorting_everything_gives(
            logits in logits(),
            top_k in prop::option::of(1u32..300),
            top_p in 0.05f32..1.0,
            min_p in prop_oneof![Just(0.0f32), 0.0f32..1.0],
            temperature in 0.1f32..2.0,
        ) {
            let sampling = Sampling { temperature, top_p, top_k, min_p, seed: None };
            let mut shortlist = Shortlist::default();
            shortlist.fill(&logits, &sampling);
            let mut kept: Vec<usize> = shortlist.entries.iter().map(|&(id, _)| id).collect();
            kept.sort_unstable();
            let plain = plain(&logits, &sampling);
            // The sums are made in another order, so the last one of the nucleus may differ.
            prop_assert!(kept.len().abs_diff(plain.len()) <= 1, "{kept:?} {plain:?}");
            let (few, many) = if kept.len() < plain.len() { (&kept, &plain) } else { (&plain, &kept) };
            prop_assert!(few.iter().all(|id| many.contains(id)), "{kept:?} {plain:?}");
            prop_assert_eq!(kept.is_empty(), logits.iter().all(|&logit| logit == f32::NEG_INFINITY));
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        let mut shortlist = Shortlist::default();
        let logits = [0.5f32, 0.25, 0.25].map(f32::ln);
        shortlist.fill(&logits, &Sampling::default());
        let at = [0.0, 0.49, 0.51, 0.74, 0.76, 0.999_999];
        assert_eq!(at.map(|at| shortlist.draw(at).unwrap()), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn log_sum_exp_does_not_overflow() {
        assert!((log_sum_exp(&[1000.0, 1000.0]) - (1000.0 + 2f32.ln())).abs() < 1e-3);
    }

    #[test]
    fn nothing_is_the_largest_of_nothing() {
        assert_eq!(arg_max(&[f32::NEG_INFINITY, f32::NAN]), None);
        assert_eq!(arg_max(&[]), None);
    }
}
