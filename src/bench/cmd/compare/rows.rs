//! One figure of one level in both runs, and what is to be made of it.

use serde_json::{Value, json};

use crate::analyse::compare::{Change, Method, Ratio, compare, compare_unpaired, ratio_of_rates};
use crate::measure::metrics::Metric;
use crate::report::differences::{Difference, Figure};
use crate::report::evidence;
use crate::results::brief::BriefLevel;
use crate::results::record::{self};

/// Its key in the JSON, and in a row's name.
fn name_of(figure: Figure) -> &'static str {
    match figure {
        Figure::Ttft => "ttft",
        Figure::E2e => "e2e",
        Figure::DecodeTps => "decode_tps",
        Figure::SteadyTps => "steady_tps",
        Figure::ThroughputTps => "throughput_tps",
    }
}

fn more_is_better(figure: Figure) -> bool {
    !matches!(figure, Figure::Ttft | Figure::E2e)
}

/// Figures that each request has one of.
const OF_REQUESTS: [(Figure, Metric); 3] = [
    (Figure::Ttft, Metric::Ttft),
    (Figure::E2e, Metric::E2e),
    (Figure::DecodeTps, Metric::DecodeTps),
];

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub concurrency: u32,
    pub figure: Figure,
    /// B ÷ A.
    pub ratio: f64,
    pub interval_95: Option<[f64; 2]>,
    /// The one that decides.
    pub interval_99: Option<[f64; 2]>,
    pub verdict: Verdict,
    /// What it rests on.
    pub details: String,
}

/// What a ratio says of B.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    Worse,
    NotSignificant,
    /// There is no 99 % interval; why.
    Undecided(String),
    /// The work was another; what differs.
    OtherWork(Vec<&'static str>),
    /// A level is not to be believed; why.
    Invalid(String),
}

impl Verdict {
    fn of(change: Change, figure: Figure, why_undecided: &str) -> Self {
        match (change, more_is_better(figure)) {
            (Change::Undecided, _) => Self::Undecided(why_undecided.to_owned()),
            (Change::NotSignificant, _) => Self::NotSignificant,
            (Change::Higher, true) | (Change::Lower, false) => Self::Better,
            (Change::Higher, false) | (Change::Lower, true) => Self::Worse,
        }
    }

    /// In words.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Better => "better".into(),
            Self::Worse => "worse".into(),
            Self::NotSignificant => "no significant change".into(),
            Self::Undecided(why) => format!("no verdict: {why}"),
            Self::OtherWork(what) => format!("no verdict: other {}", what.join(", ")),
            Self::Invalid(why) => format!("no verdict: {why}"),
        }
    }
}

/// Every figure that both levels have.
pub(super) fn of_levels(a: &BriefLevel, b: &BriefLevel, differences: &[Difference]) -> Vec<Row> {
    let same_prompts = !differences.iter().any(|difference| difference.what == "prompts");
    let of_request = |(figure, metric)| {
        let (a, b) = (evidence::series(a, metric), evidence::series(b, metric));
        let ratio = if same_prompts { compare(&a, &b) } else { compare_unpaired(&a, &b) }?;
        Some(Row::of_requests(figure, &ratio))
    };
    let rows = OF_REQUESTS.into_iter().filter_map(of_request).chain(of_rates(a, b));
    let concurrency = a.summary.concurrency;
    let judged = |row: Row| {
        let other: Vec<&str> = differences
            .iter()
            .filter(|difference| difference.spoils(row.figure, concurrency))
            .map(|difference| difference.what)
            .collect();
        let verdict = match invalid(a, b) {
            _ if !other.is_empty() => Verdict::OtherWork(other),
            Some(why) => Verdict::Invalid(why),
            None => row.verdict,
        };
        Row { concurrency, verdict, ..row }
    };
    rows.map(judged).collect()
}

/// Of which of the two levels the figures are not to be believed.
fn invalid(a: &BriefLevel, b: &BriefLevel) -> Option<String> {
    let is_invalid = |(_, level): &(_, &BriefLevel)| level.verdict == record::Verdict::Invalid;
    let (name, level) = [("A", a), ("B", b)].into_iter().find(is_invalid)?;
    Some(format!("{name} is invalid ({})", flags_of(level).join(", ")))
}

/// Names of a level's flags.
pub(super) fn flags_of(level: &BriefLevel) -> Vec<&str> {
    level.flags.iter().map(|flag| flag.name.as_str()).collect()
}

/// The throughput of both: steady where both have it, else over the wall time.
fn of_rates(a: &BriefLevel, b: &BriefLevel) -> Option<Row> {
    let row = |figure, ratio: f64, why: &str| Row {
        concurrency: 0,
        figure,
        ratio,
        interval_95: None,
        interval_99: None,
        verdict: Verdict::Undecided(why.to_owned()),
        details: "one rate for each run".into(),
    };
    if let (Some(a), Some(b)) = (evidence::steady_rate(a), evidence::steady_rate(b)) {
        let found = ratio_of_rates(&a, &b);
        let change = Change::by(Some(found.interval_99));
        return Some(Row {
            interval_95: Some(found.interval_95),
            interval_99: Some(found.interval_99),
            verdict: Verdict::of(change, Figure::SteadyTps, ""),
            details: "means of ten parts".into(),
            ..row(Figure::SteadyTps, found.ratio, "")
        });
    }
    let positive = |tps: Option<f64>| tps.filter(|tps| *tps > 0.0);
    let steady = positive(a.summary.steady_tps).zip(positive(b.summary.steady_tps));
    if let Some((a, b)) = steady {
        let why = "too few requests for batch means";
        return Some(row(Figure::SteadyTps, b / a, why));
    }
    // Of fewer ok requests than workers it would be that of a smaller load.
    let whole = |level: &BriefLevel| {
        positive(level.summary.throughput_tps).filter(|_| level.summary.fills_its_workers())
    };
    let wall = whole(a).zip(whole(b));
    let why = "without a steady window there is no interval";
    wall.map(|(a, b)| row(Figure::ThroughputTps, b / a, why))
}

impl Row {
    fn of_requests(figure: Figure, ratio: &Ratio) -> Self {
        Self {
            concurrency: 0,
            figure,
            ratio: ratio.ratio,
            interval_95: ratio.interval_95,
            interval_99: ratio.interval_99,
            verdict: Verdict::of(ratio.change(), figure, "too few independent requests"),
            details: details(ratio),
        }
    }

    /// "c=4 ttft".
    pub(super) fn name(&self) -> String {
        format!("c={} {}", self.concurrency, name_of(self.figure))
    }

    /// By how much B is worse if it is `ratio` times A: 0.05 is 5 %.
    fn worse_by(&self, ratio: f64) -> f64 {
        if more_is_better(self.figure) { 1.0 / ratio - 1.0 } else { ratio - 1.0 }
    }

    /// Whether B is surely worse, and by more than `allowed`.
    pub(super) fn is_worse_by(&self, allowed: f64) -> bool {
        self.verdict == Verdict::Worse && self.worse_by(self.ratio) > allowed
    }

    /// How much worse B may be, where that is more than `allowed` and nothing excludes it: the far
    /// end of the 99 % interval, infinite where there is none.
    pub(super) fn may_be_worse_by(&self, allowed: f64) -> Option<f64> {
        let undecided = matches!(self.verdict, Verdict::Undecided(_));
        let far = match self.interval_99 {
            Some(ends) => ends.map(|end| self.worse_by(end)).into_iter().fold(f64::MIN, f64::max),
            None => f64::INFINITY,
        };
        let open = undecided || matches!(self.verdict, Verdict::NotSignificant | Verdict::Worse);
        (open && !self.is_worse_by(allowed) && far > allowed).then_some(far)
    }

    pub(super) fn to_json(&self) -> Value {
        let (verdict, why) = match &self.verdict {
            Verdict::Better | Verdict::Worse | Verdict::NotSignificant => {
                (self.verdict.sentence(), None)
            }
            Verdict::Undecided(why) | Verdict::Invalid(why) => {
                ("no verdict".into(), Some(why.clone()))
            }
            Verdict::OtherWork(what) => {
                ("no verdict".into(), Some(format!("other {}", what.join(", "))))
            }
        };
        json!({
            "concurrency": self.concurrency,
            "figure": name_of(self.figure),
            "ratio_b_over_a": self.ratio,
            "interval_95": self.interval_95,
            "interval_99": self.interval_99,
            "verdict": verdict,
            "why_no_verdict": why,
            "method": self.details,
        })
    }
}

/// "100 pairs of prompts, worth 25.0, p=0.031".
fn details(ratio: &Ratio) -> String {
    let how = match ratio.method {
        Method::Paired => "pairs of prompts",
        Method::Unpaired => "requests, unpaired",
    };
    let all = ratio.n as f64;
    let worth = if ratio.n_eff < 0.995 * all {
        format!(", worth {:.1}", ratio.n_eff)
    } else {
        String::new()
    };
    let p = match ratio.p {
        Some(p) if p >= 1e-3 => format!(", p={p:.3}"),
        Some(p) => format!(", p={p:.0e}"),
        None => String::new(),
    };
    format!("{} {how}{worth}{p}", ratio.n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: Figure, ratio: f64, interval_99: Option<[f64; 2]>) -> Row {
        let verdict = Verdict::of(Change::by(interval_99), figure, "few");
        let details = String::new();
        Row { concurrency: 1, figure, ratio, interval_95: None, interval_99, verdict, details }
    }

    #[test]
    fn slower_means_worse_whichever_way_the_figure_runs() {
        assert!(row(Figure::Ttft, 1.06, Some([1.02, 1.1])).is_worse_by(0.05));
        assert!(!row(Figure::Ttft, 1.04, Some([1.02, 1.1])).is_worse_by(0.05));
        assert!(!row(Figure::E2e, 1.5, Some([0.9, 2.5])).is_worse_by(0.05));
        assert!(row(Figure::DecodeTps, 0.9, Some([0.85, 0.95])).is_worse_by(0.05));
        assert!(!row(Figure::SteadyTps, 1.9, Some([1.8, 2.0])).is_worse_by(0.05));
    }

    #[test]
    fn what_is_not_excluded_is_said() {
        let may = |figure, ratio, interval| row(figure, ratio, interval).may_be_worse_by(0.05);
        assert_eq!(may(Figure::Ttft, 1.0, Some([0.98, 1.02])), None);
        assert!((may(Figure::Ttft, 1.0, Some([0.8, 1.25])).unwrap() - 0.25).abs() < 1e-9);
        assert!((may(Figure::DecodeTps, 1.0, Some([0.8, 1.25])).unwrap() - 0.25).abs() < 1e-9);
        assert_eq!(may(Figure::Ttft, 1.0, None), Some(f64::INFINITY));
        assert_eq!(
            may(Figure::Ttft, 2.0, Some([1.5, 3.0])),
            None,
            "that one is worse, and said so"
        );
        assert_eq!(may(Figure::Ttft, 0.5, Some([0.4, 0.6])), None);
    }
}
