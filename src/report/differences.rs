//! What is not the same in two runs, and which figures it makes incomparable: another workload is
//! no change of speed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::evidence;
use crate::results::brief::{BriefFile, BriefLevel};
use crate::results::record::Meta;

/// The figures that are set against each other; tails are not: the interval of a p99 is too wide
/// for it under a thousand requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Time to first token.
    Ttft,
    /// End-to-end latency.
    E2e,
    /// Speed of one stream.
    DecodeTps,
    /// Throughput while all workers were busy.
    SteadyTps,
    /// Throughput over the whole time.
    ThroughputTps,
}

/// Something that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// What it is.
    pub what: &'static str,
    /// The level in which it does; `None` for all.
    pub concurrency: Option<u32>,
    /// In the first run.
    pub a: Value,
    /// In the second.
    pub b: Value,
    /// What depends on it.
    pub bearing: Bearing,
}

/// Which figures depend on a difference, so that they tell nothing of the servers' speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bearing {
    /// None: it may be the change that is asked about.
    None,
    /// What contains whole answers: end-to-end latency, throughput, and the wait for others.
    Durations,
    /// These, and the speed within an answer: longer answers have longer contexts.
    Answers,
    /// All.
    All,
}

impl Difference {
    /// Whether a figure of a level depends on it.
    pub fn spoils(&self, figure: Figure, concurrency: u32) -> bool {
        let contains_answers = match figure {
            Figure::E2e | Figure::SteadyTps | Figure::ThroughputTps => true,
            // Above c = 1 the first token waits for others' answers.
            Figure::Ttft => concurrency > 1,
            Figure::DecodeTps => false,
        };
        let here = self.concurrency.is_none_or(|level| level == concurrency);
        here && match self.bearing {
            Bearing::None => false,
            Bearing::Durations => contains_answers,
            Bearing::Answers => contains_answers || figure == Figure::DecodeTps,
            Bearing::All => true,
        }
    }

    /// "max_tokens: 256 → 32 (…)".
    pub fn sentence(&self) -> String {
        let level = self.concurrency.map(|c| format!("c={c} ")).unwrap_or_default();
        let consequence = match self.bearing {
            Bearing::None => "",
            Bearing::Durations => " (no verdict on e2e, throughput and waits: they depend on it)",
            Bearing::Answers => {
                " (no verdict but on ttft at c=1: the other figures depend on the answers)"
            }
            Bearing::All => " (no verdict: every figure depends on it)",
        };
        format!("{level}{}: {} → {}{consequence}", self.what, shown(&self.a), shown(&self.b))
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "concurrency": self.concurrency,
            "a": self.a,
            "b": self.b,
            "sentence": self.sentence(),
        })
    }
}

impl Bearing {
    /// The plots whose figures depend on it, in the page's words; empty for none.
    pub fn plots(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Durations => "end to end, throughput, and TTFT above c=1",
            Self::Answers => {
                "end to end, throughput, time per token, speed of one stream, and TTFT above c=1"
            }
            Self::All => "every figure",
        }
    }
}

/// A value as a sentence quotes it.
pub fn shown(value: &Value) -> String {
    if value.is_null() { "not said".into() } else { value.to_string() }
}

/// Of the runs: first what changes the work, then what may be the change that is asked about.
pub fn of_runs(a: &Meta, b: &Meta) -> Vec<Difference> {
    let [prompts_a, prompts_b] = prompts(a, b);
    let [weights_a, weights_b] = [a, b].map(weights);
    // What a file does not say need not be another thing.
    let if_said = |said: bool, bearing| if said { bearing } else { Bearing::None };
    let both_weights = if_said(weights_a.is_some() && weights_b.is_some(), Bearing::All);
    let both_temperatures =
        if_said(a.temperature.is_some() && b.temperature.is_some(), Bearing::Answers);
    let (config_a, config_b) = configs(a, b);
    let endpoints = (at(&config_a, "target.endpoint"), at(&config_b, "target.endpoint"));
    let both_endpoints = if_said(!endpoints.0.is_null() && !endpoints.1.is_null(), Bearing::All);
    let work = [
        ("base_model", json!(weights_a), json!(weights_b), both_weights),
        ("prompts", prompts_a, prompts_b, Bearing::All),
        ("max_tokens", json!(a.max_tokens), json!(b.max_tokens), Bearing::Answers),
        ("ignore_eos", json!(a.ignore_eos), json!(b.ignore_eos), Bearing::Answers),
        ("temperature", json!(a.temperature), json!(b.temperature), both_temperatures),
        ("open_rate_per_s", json!(a.open_rate_per_s), json!(b.open_rate_per_s), Bearing::All),
        ("endpoint", endpoints.0, endpoints.1, both_endpoints),
    ];
    let [settings_a, settings_b] = [a, b].map(settings);
    let settings = settings_a.into_iter().zip(settings_b);
    let rest = settings.map(|((what, a), (_, b))| (what, a, b, Bearing::None));
    let (only_a, only_b) = other_settings(&config_a, &config_b);
    let config = ("config", only_a, only_b, Bearing::None);
    let differing = work.into_iter().chain(rest).chain([config]).filter(|(_, a, b, _)| a != b);
    let difference = |(what, a, b, bearing)| Difference { what, concurrency: None, a, b, bearing };
    differing.map(difference).collect()
}

/// `chat` or `completions`, where the file says it.
pub fn endpoint(meta: &Meta) -> Option<String> {
    let (settings, _) = configs(meta, meta);
    Some(at(&settings, "target.endpoint").as_str()?.to_owned())
}

/// A config's settings by dotted key.
type Settings = BTreeMap<String, Value>;

/// The settings of two runs: with their defaults where both files hold them, else as far as both
/// configs' texts go; empty where they cannot be compared.
fn configs(a: &Meta, b: &Meta) -> (Settings, Settings) {
    let effective = |meta: &Meta| meta.config.as_ref()?.effective.clone();
    let text = |meta: &Meta| toml::from_str::<Value>(meta.config.as_ref()?.text.as_ref()?).ok();
    let both = effective(a).zip(effective(b)).or_else(|| text(a).zip(text(b)));
    let Some((a, b)) = both else { return Default::default() };
    let flat = |config: Value| {
        let mut settings = Settings::new();
        flatten("", config, &mut settings);
        settings
    };
    (flat(a), flat(b))
}

fn flatten(key: &str, value: Value, into: &mut Settings) {
    match value {
        Value::Object(table) => {
            for (name, value) in table {
                let key = if key.is_empty() { name } else { format!("{key}.{name}") };
                flatten(&key, value, into);
            }
        }
        value => {
            into.insert(key.to_owned(), value);
        }
    }
}

fn at(settings: &Settings, key: &str) -> Value {
    settings.get(key).cloned().unwrap_or_default()
}

/// Keys that are named elsewhere in what differs, are no setting of the measurement, or are seen
/// from the levels that both runs have.
const NAMED_ELSEWHERE: [&str; 20] = [
    "target.name",
    "target.change",
    "target.precision",
    "target.base_url",
    "target.model",
    "target.base_model",
    "target.accept_models",
    "target.endpoint",
    "target.price.",
    "engine.",
    "hardware.",
    "model.",
    "workload.prompts",
    "workload.max_tokens",
    "workload.ignore_eos",
    "workload.temperature",
    "workload.client",
    "workload.concurrency",
    "workload.open_rate",
    "sweep.",
];

/// The settings that differ and that nothing else names, as one table for each run.
fn other_settings(a: &Settings, b: &Settings) -> (Value, Value) {
    let is_new = |key: &&String| {
        let named =
            |known: &&str| key.as_str() == *known || known.ends_with('.') && key.starts_with(known);
        !NAMED_ELSEWHERE.iter().any(named)
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).filter(is_new).collect();
    let differing: Vec<&String> = keys.into_iter().filter(|key| at(a, key) != at(b, key)).collect();
    let of = |settings: &Settings| {
        let values = differing.iter().map(|key| ((*key).clone(), at(settings, key)));
        if differing.is_empty() { Value::Null } else { Value::Object(values.collect()) }
    };
    (of(a), of(b))
}

/// What the weights are, where a config says it: else a model has another id with each provider.
fn weights(meta: &Meta) -> Option<&str> {
    meta.base_model.as_deref().filter(|base| *base != meta.model)
}

/// The prompts by their bytes, where both files know them; else by the file's name.
fn prompts(a: &Meta, b: &Meta) -> [Value; 2] {
    let name = |meta: &Meta| {
        Path::new(&meta.prompts).file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    match (&a.prompts_sha256, &b.prompts_sha256) {
        (Some(of_a), Some(of_b)) if of_a == of_b => [Value::Null, Value::Null],
        (Some(of_a), Some(of_b)) => [(a, of_a), (b, of_b)]
            .map(|(meta, sha256)| json!(format!("{}, SHA-256 {sha256:.12}…", name(meta)))),
        _ => [json!(name(a)), json!(name(b))],
    }
}

/// What was set, and where: each may be the change that is asked about.
fn settings(meta: &Meta) -> Vec<(&'static str, Value)> {
    let (host, server) = (meta.host.as_ref(), meta.server.as_ref());
    let power_limits: Vec<Option<f64>> =
        host.iter().flat_map(|host| &host.gpus).map(|gpu| gpu.power_limit_w).collect();
    vec![
        ("model", json!(meta.model)),
        ("precision", json!(meta.precision)),
        ("change", json!(meta.change)),
        ("client", json!(meta.client)),
        ("protocol", json!(meta.protocol)),
        ("prompt_reuse", json!(meta.prompt_reuse)),
        ("extra_body", json!(meta.extra_body)),
        ("harness", json!(meta.harness_version)),
        ("server version", json!(server.map(|server| &server.version))),
        ("server command", json!(server.map(|server| command(&server.command, &meta.base_url)))),
        ("host", json!(host.map(|host| &host.hostname_hash))),
        // What the same machine may have had set otherwise.
        ("GPU driver", json!(host.map(|host| &host.driver))),
        ("GPU power limits, W", json!(power_limits)),
        ("CPU governor", json!(host.map(|host| &host.governor))),
        ("power supply", json!(host.map(|host| &host.power_supply))),
    ]
}

/// The command on one line; its port, which is another one each time, is no difference.
fn command(words: &[String], base_url: &str) -> String {
    let port = base_url.rsplit(':').next().and_then(|rest| rest.split('/').next());
    let port = port.filter(|port| port.parse::<u16>().is_ok());
    let word = |word: &String| if Some(word.as_str()) == port { "{port}" } else { word }.to_owned();
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Mean lengths of answers that differ by less are the same work.
const SAME_LENGTH: f64 = 0.01;

/// Whether both runs asked for answers of the same length. If not, it needs no saying that they
/// have another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Of the same.
    TheSame,
    /// Of others.
    Otherwise,
}

impl Asked {
    /// What two runs asked for.
    pub fn of(a: &Meta, b: &Meta) -> Self {
        let same = a.max_tokens == b.max_tokens && a.ignore_eos == b.ignore_eos;
        if same { Self::TheSame } else { Self::Otherwise }
    }
}

/// What two runs were asked to do that is not the same: their figures are of other work.
pub fn of_work(a: &BriefFile, b: &BriefFile) -> Vec<Difference> {
    let all = of_runs(&a.meta, &b.meta).into_iter().chain(of_common_levels(a, b));
    all.filter(|one| one.bearing != Bearing::None && one.what != "answer length").collect()
}

/// Of the levels that two runs have in common.
pub fn of_common_levels(a: &BriefFile, b: &BriefFile) -> Vec<Difference> {
    let asked = Asked::of(&a.meta, &b.meta);
    let common =
        a.levels.iter().filter_map(|level| Some((level, evidence::counterpart(b, level)?)));
    common.flat_map(|(a, b)| of_levels(a, b, asked)).collect()
}

/// Of one level.
pub fn of_levels(a: &BriefLevel, b: &BriefLevel, asked: Asked) -> Vec<Difference> {
    let concurrency = a.summary.concurrency;
    let mut found = Vec::new();
    let mut note = |what, a, b, bearing| {
        found.push(Difference { what, concurrency: Some(concurrency), a, b, bearing });
    };
    let [mode_a, mode_b] = [a, b].map(|level| level.summary.start_mode.as_str());
    let said = !mode_a.is_empty() && !mode_b.is_empty();
    let open = [mode_a, mode_b].iter().any(|mode| mode.starts_with("open"));
    // One worker starts as it starts, whatever the mode is called.
    if said && mode_a != mode_b && (open || concurrency > 1) {
        note("start_mode", json!(mode_a), json!(mode_b), Bearing::All);
    }
    if let (Some(a), Some(b)) = (mean_answer(a), mean_answer(b))
        && asked == Asked::TheSame
        && (a / b - 1.0).abs() > SAME_LENGTH
    {
        let rounded = |tokens: f64| json!((tokens * 10.0).round() / 10.0);
        note("answer length", rounded(a), rounded(b), Bearing::Durations);
    }
    found
}

fn mean_answer(level: &BriefLevel) -> Option<f64> {
    let lengths: Vec<f64> = evidence::measured_ok(level)
        .iter()
        .filter_map(|request| Some(request.n_out()? as f64))
        .filter(|tokens| *tokens > 0.0)
        .collect();
    (!lengths.is_empty()).then(|| lengths.iter().sum::<f64>() / lengths.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(a: &Meta, b: &Meta) -> Vec<String> {
        of_runs(a, b).iter().map(Difference::sentence).collect()
    }

    #[test]
    fn another_driver_or_power_limit_is_named() {
        use crate::results::record::{Host, HostGpu};
        let meta = |driver: &str, limit| Meta {
            host: Some(Host {
                driver: Some(driver.to_owned()),
                gpus: vec![HostGpu { power_limit_w: Some(limit), ..HostGpu::default() }],
                ..Host::default()
            }),
            ..Meta::default()
        };
        let found = sentences(&meta("580.95", 300.0), &meta("590.10", 250.0));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("580.95") && found[1].contains("250.0"), "{found:?}");
        assert_eq!(sentences(&meta("1", 1.0), &meta("1", 1.0)), Vec::<String>::new());
    }

    #[test]
    fn another_workload_comes_first_and_spoils_what_depends_on_it() {
        let before = Meta { max_tokens: 256, change: "a".into(), ..Meta::default() };
        let after = Meta { max_tokens: 32, change: "b".into(), ..Meta::default() };
        let found = of_runs(&before, &after);
        assert_eq!(found.iter().map(|one| one.what).collect::<Vec<_>>(), ["max_tokens", "change"]);
        let spoilt = |figure, concurrency| found.iter().any(|one| one.spoils(figure, concurrency));
        assert!(!spoilt(Figure::Ttft, 1), "the first token knows nothing of the last");
        assert!(spoilt(Figure::Ttft, 4), "but waits for others' answers");
        for figure in [Figure::E2e, Figure::DecodeTps, Figure::SteadyTps] {
            assert!(spoilt(figure, 1), "{figure:?}");
        }
        assert!(!found[1].spoils(Figure::E2e, 1), "the change is what is asked about");
    }

    #[test]
    fn every_setting_that_differs_is_named() {
        use crate::results::record::ConfigText;
        let meta = |effective: Value| Meta {
            config: Some(ConfigText { effective: Some(effective), ..ConfigText::default() }),
            ..Meta::default()
        };
        let chat = json!({"target": {"endpoint": "chat"}, "workload": {"warmup": 0, "n": 1}});
        let other = json!({
            "target": {"endpoint": "completions", "omit_body": ["stream_options"]},
            "workload": {"warmup": 3, "n": 1},
        });
        let found = of_runs(&meta(chat.clone()), &meta(other));
        let said: Vec<String> = found.iter().map(Difference::sentence).collect();
        assert!(
            said[0].starts_with("endpoint: \"chat\" → \"completions\" (no verdict"),
            "{said:?}"
        );
        assert!(said[1].contains("workload.warmup") && said[1].contains("omit_body"), "{said:?}");
        assert!(!said[1].contains("workload.n\""), "{said:?}");
        assert!(sentences(&meta(chat.clone()), &meta(chat)).is_empty());
    }

    #[test]
    fn another_rate_of_arrivals_is_other_work() {
        let meta = |rate| Meta { open_rate_per_s: Some(rate), ..Meta::default() };
        let found = of_runs(&meta(5.0), &meta(40.0));
        assert!(
            found[0].what == "open_rate_per_s" && found[0].spoils(Figure::Ttft, 1),
            "{found:?}"
        );
    }

    #[test]
    fn another_port_is_no_other_command() {
        let of = |port: &str| {
            let words = ["serve", "--port", port, "--ctx", "4096"].map(str::to_owned);
            command(&words, &format!("http://127.0.0.1:{port}/v1"))
        };
        assert_eq!(of("34011"), of("40000"));
        assert_eq!(of("34011"), "serve --port {port} --ctx 4096");
        assert_eq!(command(&["a".into()], "https://api.example/v1"), "a");
    }

    #[test]
    fn prompts_are_their_bytes_and_what_is_not_said_spoils_nothing() {
        let meta = |prompts: &str, sha256: Option<&str>| Meta {
            prompts: prompts.into(),
            prompts_sha256: sha256.map(str::to_owned),
            ..Meta::default()
        };
        let spoilt = |a: &Meta, b: &Meta| of_runs(a, b).iter().any(|d| d.spoils(Figure::Ttft, 1));
        let known = meta("prompts/short.jsonl", Some("d1fd"));
        assert!(!spoilt(&known, &meta("elsewhere/renamed.jsonl", Some("d1fd"))));
        assert!(spoilt(&known, &meta("prompts/short.jsonl", Some("ffff"))));
        assert!(!spoilt(&known, &meta("/home/me/short.jsonl", None)));
        assert!(spoilt(&known, &meta("prompts/long.jsonl", None)));
        let weights = |base: Option<&str>| Meta {
            model: "id".into(),
            base_model: base.map(str::to_owned),
            ..Meta::default()
        };
        assert!(spoilt(&weights(Some("Llama 8B")), &weights(Some("SmolLM2"))));
        assert!(!spoilt(&weights(Some("Llama 8B")), &weights(Some("id"))), "only the default");
    }
}
