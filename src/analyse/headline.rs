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

/// One target against the reference, in words: how many times faster or slower each figure is, and
/// which ones cannot be told.
pub fn sentence(target: &TargetFigures, reference: &TargetFigures) -> String {
    let (t, r) = (target, reference);
    let parts = [
        ("first token", compared("sooner", "later", r.ttft_p50_s, t.ttft_p50_s)),
        ("tokens of one stream", compared("faster", "slower", t.decode_tps_p50, r.decode_tps_p50)),
        ("throughput", compared("higher", "lower", t.throughput_tps, r.throughput_tps)),
        ("tokens per dollar", compared("more", "fewer", r.money_per_mtok, t.money_per_mtok)),
    ];
    let known: Vec<String> = parts
        .iter()
        .filter_map(|(what, how)| Some(format!("{what} {}", how.as_deref()?)))
        .collect();
    let unknown: Vec<&str> =
        parts.iter().filter(|(_, how)| how.is_none()).map(|(what, _)| *what).collect();
    let names = format!("{} against {}", target.name, reference.name);
    match (known.is_empty(), unknown.is_empty()) {
        (true, _) => format!("{names}: no figure in common."),
        (false, true) => format!("{names}: {}.", known.join(", ")),
        (false, false) => {
            format!("{names}: {}; not known: {}.", known.join(", "), unknown.join(", "))
        }
    }
}

/// How many times more or fewer tokens one price buys than another, by the million; `None` without
/// two prices.
pub fn tokens_for_the_same_money(money_per_mtok: f64, than_per_mtok: f64) -> Option<String> {
    compared("more", "fewer", Some(than_per_mtok), Some(money_per_mtok))
}

/// Within so much, figures are the same.
const EQUAL: f64 = 0.02;

fn compared(better: &str, worse: &str, good: Option<f64>, bad: Option<f64>) -> Option<String> {
    let ratio = good? / bad?;
    if !(ratio.is_finite() && ratio > 0.0) {
        return None;
    }
    Some(if (ratio - 1.0).abs() < EQUAL {
        "the same".into()
    } else if ratio > 1.0 {
        format!("{} {better}", times(ratio))
    } else {
        format!("{} {worse}", times(1.0 / ratio))
    })
}

/// "1.03×", "2.4×", "120×": as many places as matter.
fn times(ratio: f64) -> String {
    let places = if ratio < 1.1 { 2 } else { usize::from(ratio < 100.0) };
    format!("{ratio:.places$}×")
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
             throughput the same; not known: tokens per dollar."
        );
        let priced = TargetFigures { money_per_mtok: Some(0.5), ..spark.clone() };
        assert!(
            sentence(&priced, &api).ends_with("throughput the same, tokens per dollar 2.5× fewer.")
        );
        assert!(sentence(&spark, &TargetFigures::default()).contains("no figure in common"));
        assert_eq!(tokens_for_the_same_money(0.2, 0.5).unwrap(), "2.5× more");
        assert_eq!(tokens_for_the_same_money(0.5, 0.48).unwrap(), "1.04× fewer");
    }
}
