//! "How far behind am I": a target against the reference, in one sentence.

/// The figures of one target that a headline rests on; what was not measured is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetFigures {
    /// The target's name.
    pub name: String,
    /// Median time to first token at c = 1, s.
    pub ttft_p50_s: Option<f64>,
    /// Median decode speed of one stream at c = 1, tokens per second.
    pub decode_tps_p50: Option<f64>,
    /// Largest throughput over the levels that both have.
    pub throughput_tps: Option<f64>,
    /// Money for a million output tokens.
    pub money_per_mtok: Option<f64>,
}

/// One target against the reference, in words: how many times faster or slower each figure is.
pub fn sentence(target: &TargetFigures, reference: &TargetFigures) -> String {
    let parts = [
        compared("first token", "sooner", "later", reference.ttft_p50_s, target.ttft_p50_s),
        compared(
            "tokens of one stream",
            "faster",
            "slower",
            target.decode_tps_p50,
            reference.decode_tps_p50,
        ),
        compared("throughput", "higher", "lower", target.throughput_tps, reference.throughput_tps),
        compared(
            "tokens per dollar",
            "more",
            "fewer",
            reference.money_per_mtok,
            target.money_per_mtok,
        ),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        format!("{} and {} have no figure in common.", target.name, reference.name)
    } else {
        format!("{} against {}: {}.", target.name, reference.name, parts.join(", "))
    }
}

/// Within so much, figures are the same.
const EQUAL: f64 = 0.02;

fn compared(
    what: &str,
    better: &str,
    worse: &str,
    good: Option<f64>,
    bad: Option<f64>,
) -> Option<String> {
    let ratio = good? / bad?;
    if !(ratio.is_finite() && ratio > 0.0) {
        return None;
    }
    Some(if (ratio - 1.0).abs() < EQUAL {
        format!("{what} the same")
    } else if ratio > 1.0 {
        format!("{what} {ratio:.1}× {better}")
    } else {
        format!("{what} {:.1}× {worse}", 1.0 / ratio)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_but_slow() {
        let spark = TargetFigures {
            name: "spark".into(),
            ttft_p50_s: Some(0.125),
            decode_tps_p50: Some(16.0),
            throughput_tps: Some(16.0),
            money_per_mtok: None,
        };
        let api = TargetFigures {
            name: "api".into(),
            ttft_p50_s: Some(0.25),
            decode_tps_p50: Some(160.0),
            throughput_tps: Some(16.1),
            money_per_mtok: Some(0.2),
        };
        assert_eq!(
            sentence(&spark, &api),
            "spark against api: first token 2.0× sooner, tokens of one stream 10.0× slower, \
             throughput the same."
        );
        assert!(sentence(&spark, &TargetFigures::default()).contains("no figure in common"));
    }
}
