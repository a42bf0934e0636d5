//! One level: its summary, hardware, flags and requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::{Hardware, RequestRecord};

/// One level of the ladder.
// `R` is what is kept of each request: on disk its whole record.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Level")]
pub struct Level<R = RequestRecord> {
    /// The figures.
    pub summary: Summary,
    /// The entry of the config's `concurrency` that it was measured for: in an open loop
    /// `summary.concurrency` is another figure. Not in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_asked: Option<u32>,
    /// What the machine did meanwhile.
    #[serde(default)]
    pub hardware: Option<Hardware>,
    /// Why that is not known; not there if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_reason: Option<String>,
    /// The server's own counters over the level, warm-up included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_metrics: Option<ServerMetrics>,
    /// Why the figures should not be believed as they stand.
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// The worst of the flags.
    #[serde(default)]
    pub verdict: Verdict,
    /// Every request, warm-up included.
    pub requests: Vec<R>,
}

impl<R> Level<R> {
    /// Whether requests arrived at their own times, whatever was in flight: such a level is none of
    /// c requests in flight, though that many may have been at most.
    pub fn is_open(&self) -> bool {
        self.summary.start_mode.starts_with("open")
    }

    /// Which level of the config's ladder it is; `None` where an older file does not tell.
    pub fn rung(&self) -> Option<u32> {
        let closed = !self.summary.start_mode.starts_with("open");
        self.concurrency_asked.or(closed.then_some(self.summary.concurrency))
    }
}

/// How far the counters on a server's page of Prometheus metrics went during a level.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerMetrics {
    /// By name and labels, as the server spells them; null where `reason` says why. Counters, and
    /// the sums and counts of histograms and summaries.
    pub counters: Option<BTreeMap<String, f64>>,
    /// Why there are none.
    pub reason: Option<String>,
}

/// The figures of one level. Names without a unit are seconds or counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Requests in flight in steady state (closed loop); the most in flight (open loop).
    pub concurrency: u32,
    /// Measured requests: ok + failed, without the cancelled.
    pub n: u64,
    /// Measured requests that ended as they should.
    pub n_ok: u64,
    /// Measured requests that did not.
    #[serde(default)]
    pub n_err: u64,
    /// Requests that the harness itself stopped.
    #[serde(default)]
    pub n_cancelled: u64,
    /// Warm-up requests, in no figure.
    #[serde(default)]
    pub n_warmup: u64,
    /// Measured requests whose kept connection the server had closed, so that it was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_stale: Option<u64>,
    /// Open loop: how much later than intended the measured requests were sent, median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_s_p50: Option<f64>,
    /// The same, 99th percentile; none under 100 requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_s_p99: Option<f64>,
    /// Failures by class.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// First measured send → last end.
    pub wall_s: f64,
    /// Σ output tokens of ok requests / `wall_s`: the lesson's figure.
    pub throughput_tps: Option<f64>,
    /// Tokens delivered while c requests were in flight / that time.
    #[serde(default)]
    pub steady_tps: Option<f64>,
    /// 95 % interval of `steady_tps` by batch means; null where a part of the window would be
    /// shorter than one request.
    #[serde(default)]
    pub steady_tps_ci: Option<[f64; 2]>,
    /// Start of the steady window, since the level's start.
    #[serde(default)]
    pub steady_t0_s: Option<f64>,
    /// Its end.
    #[serde(default)]
    pub steady_t1_s: Option<f64>,
    /// Mean in flight ÷ c in the steady window.
    #[serde(default)]
    pub occupancy: Option<f64>,
    /// (W(c) − W(1)) / ((c − 1)·W(1)): 1 is one at a time, 0 perfectly parallel.
    #[serde(default)]
    pub serialness: Option<f64>,
    /// Share of ok requests with a gap over the stutter threshold.
    #[serde(default)]
    pub stutter_share: Option<f64>,
    /// `staggered`, `simultaneous`, `open_poisson`, `open_constant`.
    #[serde(default)]
    pub start_mode: String,
    /// What the effective sample sizes rest on: `serialness` or `autocorrelation`.
    #[serde(default)]
    pub n_eff_source: String,
    /// Why the level ended: `n_ok`, `max_attempts`, `refused`, `max_duration`, `max_cost`,
    /// `interrupted`.
    #[serde(default)]
    pub ended_by: String,
    /// Tokens of ok requests: Σ prompt.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Tokens of ok requests: Σ output.
    #[serde(default)]
    pub output_tokens: u64,
    /// Tokens of ok requests: Σ cached.
    #[serde(default)]
    pub cached_tokens: u64,
    /// TTFT with failures as infinite.
    #[serde(default)]
    pub ttft_all: Option<PercentilesAll>,
    /// End-to-end latency with failures as infinite.
    #[serde(default)]
    pub e2e_all: Option<PercentilesAll>,
    /// Where the series settled (MSER-5).
    #[serde(default)]
    pub settling: Settling,
    /// MLPerf's one-sided 99 % bounds.
    #[serde(default)]
    pub early_stopping: EarlyStopping,
    /// Share and rate of requests within the promise, where the config makes one.
    #[serde(default)]
    pub goodput: Option<Goodput>,
    /// `ttft_p50`, `ttft_p90`, … for each metric, as flat keys.
    #[serde(flatten)]
    pub metrics: MetricTable,
}

/// The metrics of a level by name: `ttft`, `ttft_answer`, `e2e`, `last_token`, `decode_tps`,
/// `tpot`, `gap`, `max_gap`, `queue`, `prefill`.
///
/// On disk each is spread over flat keys: `ttft_p50`, `ttft_p50_ci`, and so on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricTable(pub BTreeMap<String, MetricStats>);

/// What is said of one metric over the ok requests of a level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MetricStats {
    /// Percentiles by linear interpolation; p99 is null under 100 samples.
    pub p50: Option<f64>,
    /// See `p50`.
    pub p90: Option<f64>,
    /// See `p50`.
    pub p95: Option<f64>,
    /// See `p50`.
    pub p99: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Samples.
    pub n: u64,
    /// Independent samples that they are worth.
    pub n_eff: Option<f64>,
    /// 95 % interval of the median: `[low, high]`, null for an end that does not exist.
    pub p50_ci: Option<[Option<f64>; 2]>,
    /// The same for p90.
    pub p90_ci: Option<[Option<f64>; 2]>,
    /// The same for p99.
    pub p99_ci: Option<[Option<f64>; 2]>,
}

impl Summary {
    /// Whether there were enough ok requests to keep every worker of a closed loop busy at once:
    /// with fewer, its throughput is that of a smaller load.
    pub fn fills_its_workers(&self) -> bool {
        self.start_mode.starts_with("open") || self.n_ok >= u64::from(self.concurrency)
    }

    /// "no steady state found in TTFT"; `None` where one was found, or there were too few to look.
    pub fn unsettled(&self) -> Option<String> {
        let of = [
            ("TTFT", self.settling.ttft_unsettled),
            ("decode speed", self.settling.decode_tps_unsettled),
        ];
        let of: Vec<&str> = of
            .into_iter()
            .filter(|(_, unsettled)| *unsettled == Some(true))
            .map(|(what, _)| what)
            .collect();
        (!of.is_empty()).then(|| format!("no steady state found in {} (MSER-5)", of.join(" and ")))
    }

    /// What ended the level before it had as many ok requests as were asked for, in words.
    pub fn cap(&self) -> Option<String> {
        let caps = ["max_attempts", "max_duration", "max_cost"];
        let cap = caps.into_iter().find(|cap| *cap == self.ended_by)?;
        Some(format!("stopped by {cap} after {} ok", self.n_ok))
    }

    /// The figures of one metric, if the level has them.
    pub fn metric(&self, name: &str) -> Option<&MetricStats> {
        self.metrics.0.get(name)
    }
}

/// Names of the metrics that are spread over a summary's flat keys.
pub const METRICS: [&str; 10] = [
    "ttft",
    "ttft_answer",
    "e2e",
    "last_token",
    "decode_tps",
    "tpot",
    "gap",
    "max_gap",
    "queue",
    "prefill",
];

impl Serialize for MetricTable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        for (name, stats) in &self.0 {
            let floats = [
                ("p50", stats.p50),
                ("p90", stats.p90),
                ("p95", stats.p95),
                ("p99", stats.p99),
                ("mean", stats.mean),
                ("min", stats.min),
                ("max", stats.max),
            ];
            for (key, value) in floats {
                map.serialize_entry(&format!("{name}_{key}"), &value)?;
            }
            map.serialize_entry(&format!("{name}_n"), &stats.n)?;
            map.serialize_entry(&format!("{name}_n_eff"), &stats.n_eff)?;
            let intervals =
                [("p50_ci", stats.p50_ci), ("p90_ci", stats.p90_ci), ("p99_ci", stats.p99_ci)];
            for (key, value) in intervals {
                map.serialize_entry(&format!("{name}_{key}"), &value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for MetricTable {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        let mut table = BTreeMap::new();
        for name in METRICS {
            let value = |key: &str| flat.get(&format!("{name}_{key}"));
            let float = |key: &str| value(key).and_then(serde_json::Value::as_f64);
            let interval = |key: &str| {
                let ends = value(key)?.as_array()?;
                Some([ends.first()?.as_f64(), ends.get(1)?.as_f64()])
            };
            if value("p50").is_none() {
                continue;
            }
            let stats = MetricStats {
                p50: float("p50"),
                p90: float("p90"),
                p95: float("p95"),
                p99: float("p99"),
                mean: float("mean"),
                min: float("min"),
                max: float("max"),
                n: value("n").and_then(serde_json::Value::as_u64).unwrap_or(0),
                n_eff: float("n_eff"),
                p50_ci: interval("p50_ci"),
                p90_ci: interval("p90_ci"),
                p99_ci: interval("p99_ci"),
            };
            table.insert(name.to_owned(), stats);
        }
        Ok(Self(table))
    }
}

/// The flat keys, each beside what it holds.
impl JsonSchema for MetricTable {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MetricTable".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut properties = serde_json::Map::new();
        for metric in METRICS {
            for key in ["p50", "p90", "p95", "p99", "mean", "min", "max", "n_eff"] {
                let value = generator.subschema_for::<Option<f64>>();
                properties.insert(format!("{metric}_{key}"), value.into());
            }
            properties.insert(format!("{metric}_n"), generator.subschema_for::<u64>().into());
            for key in ["p50_ci", "p90_ci", "p99_ci"] {
                let ends = generator.subschema_for::<Option<[Option<f64>; 2]>>();
                properties.insert(format!("{metric}_{key}"), ends.into());
            }
        }
        schemars::json_schema!({ "type": "object", "properties": properties })
    }
}

/// Percentiles in which each failure counts as infinitely slow; null where that is infinite.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PercentilesAll {
    /// Seconds.
    pub p50: Option<f64>,
    /// Seconds.
    pub p90: Option<f64>,
    /// Seconds; null under 100 samples too.
    pub p99: Option<f64>,
    /// From this percentile on, values are infinite; null where nothing failed.
    pub infinite_from_percent: Option<f64>,
}

/// Where a level's series settled: a check, nothing is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Settling {
    /// Requests, in completion order, that belong to the transient of TTFT; null under ten.
    pub ttft_cut: Option<u64>,
    /// Whether no steady state was found in TTFT.
    pub ttft_unsettled: Option<bool>,
    /// The same for the decode speed.
    pub decode_tps_cut: Option<u64>,
    /// The same for the decode speed.
    pub decode_tps_unsettled: Option<bool>,
}

/// One-sided 99 % upper bounds by MLPerf's early stopping, seconds; null under 64 (p90) and 662
/// (p99) requests.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EarlyStopping {
    /// TTFT.
    pub ttft_p90: Option<f64>,
    /// TTFT.
    pub ttft_p99: Option<f64>,
    /// End-to-end latency.
    pub e2e_p90: Option<f64>,
    /// End-to-end latency.
    pub e2e_p99: Option<f64>,
}

/// How much of the work kept the promise of `[slo]`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Goodput {
    /// Largest time to first token.
    pub slo_ttft_s: f64,
    /// Largest time per output token.
    pub slo_tpot_s: f64,
    /// Requests that kept both.
    pub good: u64,
    /// `good` ÷ requests issued, failures included.
    pub attainment: Option<f64>,
    /// Good requests per second.
    pub rate_per_s: Option<f64>,
}

/// One reason not to believe a number as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    /// Its stable name.
    pub name: String,
    /// How bad it is.
    pub severity: Severity,
    /// In words, with the numbers.
    pub text: String,
    /// The numbers.
    #[serde(default)]
    pub numbers: BTreeMap<String, f64>,
}

/// How bad a flag is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Read the reason before quoting the number.
    Flagged,
    /// Do not quote the number.
    Invalid,
}

/// What a level is worth: the worst of its flags.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No flag.
    #[default]
    Valid,
    /// At least one flag.
    Flagged,
    /// At least one flag that forbids quoting.
    Invalid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_reads_back_what_it_wrote_under_flat_keys() {
        let stats = MetricStats {
            p50: Some(0.1),
            n: 7,
            p50_ci: Some([Some(0.05), None]),
            ..MetricStats::default()
        };
        let summary = Summary {
            concurrency: 4,
            metrics: MetricTable(BTreeMap::from([("ttft".to_owned(), stats)])),
            ..Summary::default()
        };
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["ttft_p50"], 0.1);
        assert_eq!(json["ttft_p50_ci"], serde_json::json!([0.05, null]));
        assert_eq!(json["ttft_p99"], serde_json::Value::Null);
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
    }
}
