//! Two targets in turns, level by level, A B B A: what drifts while a comparison runs (heat, a
//! neighbour, the network) drifts for both.
//!
//! Each turn is one level on a server of its own, under equal conditions; the other one is stopped
//! meanwhile. Prompts go on from turn to turn, so that both get the same ones for the same level.

use super::target::{Outcome, TargetRun, Work, steps};
use super::{Harness, Step};
use crate::bench::config::Config;
use crate::results::store;

/// Measures two targets whose configs ask for the same levels (see [`mismatch`]).
///
/// # Errors
/// Only if results cannot be written.
pub async fn run_interleaved(
    harness: &Harness,
    pair: [&Work; 2],
) -> Result<Vec<Outcome>, store::StoreError> {
    let [a, b] = pair;
    let mut runs = [TargetRun::new(harness, a).await, TargetRun::new(harness, b).await];
    runs[0].interleaved_with(b.config.target.name.as_str());
    runs[1].interleaved_with(a.config.target.name.as_str());
    for (side, step) in turns(&steps(&a.config)) {
        runs[side].turn(&[step]).await;
    }
    let mut outcomes = Vec::new();
    for run in runs {
        outcomes.extend(run.finish()?);
    }
    Ok(outcomes)
}

/// Whose turn it is with which level: A B, B A, A B …
fn turns(steps: &[Step]) -> impl Iterator<Item = (usize, Step)> {
    let pairs = steps.iter().enumerate();
    pairs.flat_map(|(index, step)| [index % 2, 1 - index % 2].map(|side| (side, *step)))
}

/// Why two targets cannot take turns.
pub fn mismatch(a: &Config, b: &Config) -> Option<String> {
    let differs = |what: &str| {
        let (a, b) = (&a.target.name, &b.target.name);
        Some(format!("{a} and {b} cannot take turns: their {what} differ"))
    };
    let (one, other) = (&a.workload, &b.workload);
    match () {
        () if one.sources() != other.sources() => differs("prompts"),
        () if one.concurrency != other.concurrency => differs("levels"),
        () if one.repeats != other.repeats => differs("repeats"),
        () if one.spacing != other.spacing => differs("spacings"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_a_b_b_a() {
        let step = |concurrency| Step { file: 0, concurrency };
        let order: Vec<(usize, u32)> =
            turns(&[step(1), step(4), step(16)]).map(|(side, s)| (side, s.concurrency)).collect();
        assert_eq!(order, [(0, 1), (1, 1), (1, 4), (0, 4), (0, 16), (1, 16)]);
    }
}
