//! "How far behind am I": each target against the reference, in a sentence.

use super::differences::{self, Difference};
use super::evidence::{busiest, counterpart, level_at, price_per_output_mtok, throughput};
use crate::analyse::headline::{TargetFigures, sentence};
use crate::results::brief::{BriefFile, BriefLevel};
use crate::results::record::Verdict;

/// A sentence for each run against the reference with the same work, and, where tokens per dollar
/// are missing, what they would take. The reference is the run whose change says so
/// ("reference …"), else the first one. Empty with one target.
///
/// `own_money` gives what a million output tokens cost on a machine of one's own, for runs whose
/// config names no price.
pub fn headlines(
    files: &[&BriefFile],
    own_money: &dyn Fn(&BriefFile) -> Option<f64>,
) -> Vec<String> {
    let measured: Vec<&BriefFile> =
        files.iter().copied().filter(|file| !file.levels.is_empty()).collect();
    let mut said: Vec<String> = Vec::new();
    let mut unpriced: Vec<&str> = Vec::new();
    for (place, file) in measured.iter().enumerate() {
        let Some(reference) = reference_of(file, &measured) else { continue };
        // Of several passes over the ladder the first one speaks; compare has the rest.
        let earlier = &measured[..place];
        let again =
            |other: &&BriefFile| other.meta.target == file.meta.target && same_work(other, file);
        if reference.meta.target == file.meta.target || earlier.iter().any(again) {
            continue;
        }
        let of = |file, other| figures(file, other, own_money);
        let (target, against) = (of(file, reference), of(reference, file));
        for one in [(&target, file), (&against, &reference)] {
            let name = one.1.meta.target.as_str();
            if one.0.money_per_mtok.is_none() && !unpriced.contains(&name) {
                unpriced.push(name);
            }
        }
        said.push(sentence(&target, &against) + &other_work(reference, file));
    }
    if !unpriced.is_empty() {
        said.push(format!(
            "Tokens per dollar take a price of {}: [target] price for an API, --costs FILE for a \
             machine of your own.",
            unpriced.join(", ")
        ));
    }
    said
}

/// What a run is to be compared with; itself if it is the reference.
fn reference_of<'a>(file: &BriefFile, all: &[&'a BriefFile]) -> Option<&'a BriefFile> {
    let of_work = || all.iter().filter(|other| same_work(other, file));
    let named = of_work().find(|other| other.meta.change.starts_with("reference"));
    named.or_else(|| of_work().next()).copied()
}

/// " Not the same work: temperature 0.0 → 1.0."; empty where it is.
fn other_work(reference: &BriefFile, file: &BriefFile) -> String {
    let found = differences::of_work(reference, file);
    if found.is_empty() {
        return String::new();
    }
    let item = |one: &Difference| {
        format!("{} {} → {}", one.what, differences::shown(&one.a), differences::shown(&one.b))
    };
    let mut items: Vec<String> = found.iter().map(item).collect();
    items.dedup(); // A way of starting requests differs at each level.
    format!(" Not the same work: {}.", items.join(", "))
}

/// Whether one may be set against the other: the same prompts and lengths. What else differs is said.
fn same_work(one: &BriefFile, other: &BriefFile) -> bool {
    let work = |file: &BriefFile| {
        let meta = &file.meta;
        (meta.prompts_sha256.clone(), meta.max_tokens, meta.ignore_eos)
    };
    work(one) == work(other)
}

/// The figures of a run that stand beside another's: of levels that both have and that are to be
/// believed.
fn figures(
    file: &BriefFile,
    other: &BriefFile,
    own_money: &dyn Fn(&BriefFile) -> Option<f64>,
) -> TargetFigures {
    let believed = |level: &&BriefLevel| level.verdict != Verdict::Invalid;
    let single = level_at(file, 1).filter(believed);
    let median = |name| single.and_then(|level| level.summary.metric(name)?.p50);
    let common = file
        .levels
        .iter()
        .filter(believed)
        .filter(|level| counterpart(other, level).as_ref().is_some_and(believed));
    let price = busiest(file).and_then(|level| price_per_output_mtok(&file.meta, level));
    TargetFigures {
        name: file.meta.target.clone(),
        ttft_p50_s: median("ttft"),
        decode_tps_p50: median("decode_tps"),
        throughput_tps: common.filter_map(throughput).reduce(f64::max),
        money_per_mtok: price.or_else(|| own_money(file)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::record::{Meta, MetricStats, ResultsFile, Summary};

    fn level(concurrency: u32, tps: f64, verdict: Verdict) -> BriefLevel {
        let mut summary = Summary {
            concurrency,
            n_ok: 100,
            throughput_tps: Some(tps),
            prompt_tokens: 1000,
            output_tokens: 1000,
            ..Summary::default()
        };
        let stats = MetricStats { p50: Some(tps), ..MetricStats::default() };
        summary.metrics.0.insert("decode_tps".into(), stats);
        BriefLevel { summary, verdict, ..BriefLevel::default() }
    }

    fn run(target: &str, prompts: &str, levels: Vec<BriefLevel>) -> BriefFile {
        let meta =
            Meta { target: target.into(), prompts_sha256: Some(prompts.into()), ..Meta::default() };
        BriefFile { levels, ..ResultsFile::new(meta).brief() }
    }

    #[test]
    fn each_work_has_its_own_sentence_and_a_missing_price_is_said() {
        let ladder = |tps| vec![level(1, tps, Verdict::Valid)];
        let files = [
            run("a", "short", ladder(10.0)),
            run("a", "long", ladder(10.0)),
            run("b", "short", ladder(20.0)),
            run("b", "long", ladder(5.0)),
            run("b", "long", ladder(7.0)),
        ];
        let files: Vec<&BriefFile> = files.iter().collect();
        let said = headlines(&files, &|_| None);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("b against a: tokens of one stream 2.0× faster"), "{said:?}");
        assert!(said[1].contains("2.0× slower") && said[1].contains("not known"), "{said:?}");
        assert!(said[2].contains("a price of b, a:"), "{said:?}");
        assert_eq!(headlines(&files[..2], &|_| None), Vec::<String>::new());
    }

    #[test]
    fn own_money_stands_against_a_price_of_the_measured_work() {
        let own = run("own", "short", vec![level(1, 10.0, Verdict::Valid)]);
        let mut api = run("api", "short", vec![level(1, 100.0, Verdict::Valid)]);
        api.meta.change = "reference: an API".into();
        api.meta.price = Some(json!({"input_per_mtok": 0.1, "output_per_mtok": 0.3}));
        let said = headlines(&[&own, &api], &|file| (file.meta.target == "own").then_some(0.8));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("own against api:"), "{said:?}");
        assert!(said[0].contains("tokens per dollar 2.0× fewer"), "{said:?}");
    }

    #[test]
    fn what_else_was_asked_otherwise_is_said() {
        let ladder = || vec![level(1, 10.0, Verdict::Valid), level(4, 10.0, Verdict::Valid)];
        let of = |target, temperature, model: &str, mode: &str| {
            let mut file = run(target, "short", ladder());
            file.meta.temperature = Some(temperature);
            file.meta.base_model = Some(model.into());
            for level in &mut file.levels {
                level.summary.start_mode = mode.into();
            }
            file
        };
        let cold = of("cold", 0.0, "8B", "staggered");
        let same = of("same", 0.0, "8B", "staggered");
        let hot = of("hot", 1.0, "70B", "simultaneous");
        let said = headlines(&[&cold, &same, &hot], &|_| None);
        assert!(!said[0].contains("Not the same work"), "{said:?}");
        let expected = " Not the same work: base_model \"8B\" → \"70B\", temperature 0.0 → 1.0, \
                        start_mode \"staggered\" → \"simultaneous\".";
        assert!(said[1].starts_with("hot against cold") && said[1].ends_with(expected), "{said:?}");
    }

    #[test]
    fn throughput_is_of_levels_that_both_have_and_that_are_valid() {
        let a =
            run("a", "short", vec![level(1, 10.0, Verdict::Valid), level(4, 40.0, Verdict::Valid)]);
        let b = run(
            "b",
            "short",
            vec![
                level(1, 20.0, Verdict::Valid),
                level(4, 999.0, Verdict::Invalid),
                level(16, 320.0, Verdict::Valid),
            ],
        );
        let said = headlines(&[&a, &b], &|_| None);
        assert!(said[0].contains("throughput 2.0× higher"), "{said:?}");
    }
}
