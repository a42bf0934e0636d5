//! Flags whose reasons lie outside the requests: the harness, the server, the device.

use super::{Flag, FlagName, Severity, percent};
use crate::measure::level::LevelSummary;
use crate::measure::metrics::Metric;
use std::collections::BTreeMap;
use std::time::Duration;

/// What others found out about a level. What is not known stays `None` and raises no flag.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outside {
    /// How long the answers were to be.
    pub length: Option<AskedLength>,
    /// The harness's own error and load.
    pub client: ClientFacts,
    /// The server's prompt tokens against a tokenizer's.
    pub tokenizer: Option<TokenizerCheck>,
    /// Another model answered than was asked for, and is not accepted in its place.
    pub wrong_model: Option<ModelMismatch>,
    /// Settings that were read back differently, each in words.
    pub settings_not_applied: Vec<String>,
    /// The most tokens per second and stream that the memory's bandwidth allows.
    pub ceiling_tps: Option<f64>,
    /// The devices that the server used, or may have used.
    pub gpus: Vec<GpuFacts>,
    /// Whether a figure of power or energy is in the results.
    pub measures_power: bool,
}

/// How long the answers were to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedLength {
    /// The end of text is ignored: exactly so many tokens.
    Exactly(u64),
    /// The model may stop earlier.
    AtMost(u64),
}

impl AskedLength {
    pub(super) fn allows(self, tokens: u64) -> bool {
        match self {
            Self::Exactly(asked) => tokens == asked,
            Self::AtMost(asked) => tokens <= asked,
        }
    }
}

impl std::fmt::Display for AskedLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(asked) => write!(f, "exactly {asked} tokens long"),
            Self::AtMost(asked) => write!(f, "at most {asked} tokens long"),
        }
    }
}

/// The harness's own error and load in the level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClientFacts {
    /// 99th percentile of the gaps' error in the self-test, at this concurrency and rate.
    pub gap_error_p99: Option<Duration>,
    /// CPU time ÷ wall time ÷ the cores it may use, 0 ..= 1.
    pub cpu_share: Option<f64>,
    /// How late the event loops ran what was due, 99th percentile.
    pub loop_lag_p99: Option<Duration>,
}

/// The server's count of prompt tokens against a tokenizer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenizerCheck {
    /// Prompts that were compared.
    pub checked: u64,
    /// Of them, those with another count.
    pub differing: u64,
    /// The largest difference, in tokens.
    pub largest_difference: u64,
}

/// Where a server's memory is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// On the devices, by their driver.
    Devices,
    /// In the whole machine, without the page cache: no device tells.
    Machine,
}

/// A model that was not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelMismatch {
    /// The id in the request.
    pub asked: String,
    /// The id in the answer.
    pub answered: String,
}

/// One device, under load.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuFacts {
    /// NVML's index.
    pub index: u32,
    /// Product name.
    pub name: Option<String>,
    /// Processes with memory on it that are not the server's, each in words.
    pub foreign_processes: Vec<String>,
    /// Mean SM clock under load.
    pub sm_clock_mhz_mean: Option<f64>,
    /// The device's own maximum.
    pub sm_clock_mhz_limit: Option<f64>,
    /// Share of samples for each throttle reason.
    pub throttle_share: BTreeMap<String, f64>,
}

/// Share of the gap that the harness's own error may have.
const CLIENT_GAP_SHARE: f64 = 0.05;
/// Above this load, what the harness says of others' latency is partly its own.
const CLIENT_CPU_SHARE: f64 = 0.7;
/// A loop that is later than this stamps late.
const CLIENT_LAG: Duration = Duration::from_millis(2);
/// Share of the median TTFT that an open loop may be late to send: beyond it the arrivals are not
/// those that were meant, whatever the latencies count from.
const CLIENT_LATENESS_SHARE: f64 = 0.01;
/// Bytes and bandwidth are known to about two percent; beyond that a count is wrong.
const ROOFLINE_SLACK: f64 = 1.02;
/// Share of the maximum clock, below which a device is not working as it can.
const CLOCK_SHARE: f64 = 0.6;
/// GB10's known stuck low-power state runs at 500 to 850 MHz instead of about 2,400.
const GB10_CLOCK_MHZ: f64 = 1000.0;
/// Share of samples that a throttle reason may take.
const THROTTLE_SHARE: f64 = 0.05;
/// Power is a one-second average on most devices: shorter windows see mostly their edges.
const POWER_WINDOW: Duration = Duration::from_secs(2);
/// What a driver may keep after a process is gone.
const MEMORY_SLACK_BYTES: u64 = 256_000_000;

pub(super) fn flags(summary: &LevelSummary, outside: &Outside) -> Vec<Flag> {
    let found = [
        client_limited(summary, outside.client),
        outside.tokenizer.and_then(prompt_mismatch),
        outside.wrong_model.as_ref().map(wrong_model),
        settings_not_applied(&outside.settings_not_applied),
        outside.ceiling_tps.and_then(|ceiling| over_roofline(summary, ceiling)),
        short_for_power(summary).filter(|_| outside.measures_power),
    ];
    let of_devices =
        outside.gpus.iter().flat_map(|gpu| [foreign_process(gpu), low_clock(gpu), throttled(gpu)]);
    found.into_iter().chain(of_devices).flatten().collect()
}

fn client_limited(summary: &LevelSummary, client: ClientFacts) -> Option<Flag> {
    let mut reasons = Vec::new();
    let mut flag = Flag::flagged(FlagName::ClientLimited, String::new());
    let gap = summary.metric(Metric::Gap).and_then(|gap| gap.p50).filter(|gap| *gap > 0.0);
    if let (Some(error), Some(gap)) = (client.gap_error_p99, gap) {
        let share = error.as_secs_f64() / gap;
        if share > CLIENT_GAP_SHARE {
            let error_ms = error.as_secs_f64() * 1e3;
            reasons.push(format!(
                "its error ({error_ms:.2} ms, p99) is {} of the gap",
                percent(share)
            ));
            flag = flag.number("gap_error_ms_p99", error_ms).number("share_of_gap", share);
        }
    }
    if let Some(share) = client.cpu_share.filter(|share| *share > CLIENT_CPU_SHARE) {
        reasons.push(format!("it used {} of its CPU", percent(share)));
        flag = flag.number("cpu_share", share);
    }
    if let Some(lag) = client.loop_lag_p99.filter(|lag| *lag > CLIENT_LAG) {
        let lag_ms = lag.as_secs_f64() * 1e3;
        reasons.push(format!("its loop lagged by {lag_ms:.1} ms (p99)"));
        flag = flag.number("loop_lag_ms_p99", lag_ms);
    }
    let ttft = summary.metric(Metric::Ttft).and_then(|ttft| ttft.p50).filter(|ttft| *ttft > 0.0);
    // A p99 of fewer than 100 is their largest.
    let late = summary.lateness.map(|late| {
        late.p99.map_or((late.max, "max", "lateness_ms_max"), |p99| (p99, "p99", "lateness_ms_p99"))
    });
    if let (Some((late, which, number)), Some(ttft)) = (late, ttft)
        && late / ttft > CLIENT_LATENESS_SHARE
    {
        let (late_ms, share) = (late * 1e3, late / ttft);
        let of_ttft = percent(share);
        reasons
            .push(format!("it sent {late_ms:.2} ms late ({which}), {of_ttft} of the median TTFT"));
        flag = flag.number(number, late_ms).number("share_of_ttft", share);
    }
    flag.text = format!("the harness itself may be what was measured: {}", reasons.join(", "));
    (!reasons.is_empty()).then_some(flag)
}

fn prompt_mismatch(check: TokenizerCheck) -> Option<Flag> {
    (check.differing > 0).then(|| {
        let text = format!(
            "the server counted other prompt tokens than the tokenizer for {} of {} prompts (by \
             up to {}): it does not see the prompt that was meant",
            check.differing, check.checked, check.largest_difference
        );
        let flag = Flag::flagged(FlagName::PromptMismatch, text);
        flag.number("n_differing", check.differing as f64)
            .number("largest_difference", check.largest_difference as f64)
    })
}

fn wrong_model(mismatch: &ModelMismatch) -> Flag {
    let text = format!("asked for {:?}, answered by {:?}", mismatch.asked, mismatch.answered);
    Flag::new(FlagName::WrongModel, Severity::Invalid, text)
}

fn settings_not_applied(settings: &[String]) -> Option<Flag> {
    (!settings.is_empty()).then(|| {
        let text = format!("the server runs with other settings: {}", settings.join("; "));
        Flag::new(FlagName::SettingsNotApplied, Severity::Invalid, text)
            .number("n_settings", settings.len() as f64)
    })
}

fn over_roofline(summary: &LevelSummary, ceiling: f64) -> Option<Flag> {
    let measured = summary.metric(Metric::DecodeTps)?.p50?;
    let ratio = measured / ceiling;
    (ratio > ROOFLINE_SLACK).then(|| {
        let text = format!(
            "{measured:.1} tok/s per stream is {} of the {ceiling:.1} that the memory allows: a \
             byte count, the bandwidth or the token count is wrong (or several tokens come from \
             one pass over the weights)",
            percent(ratio)
        );
        let flag = Flag::flagged(FlagName::OverRoofline, text);
        flag.number("decode_tps_p50", measured).number("ceiling_tps", ceiling)
    })
}

fn foreign_process(gpu: &GpuFacts) -> Option<Flag> {
    let count = gpu.foreign_processes.len();
    (count > 0).then(|| {
        let who = gpu.foreign_processes.join(", ");
        let text = format!("GPU {} held memory of others than the server: {who}", gpu.index);
        let flag = Flag::flagged(FlagName::ForeignGpuProcess, text);
        flag.number("gpu", f64::from(gpu.index)).number("n_processes", count as f64)
    })
}

fn low_clock(gpu: &GpuFacts) -> Option<Flag> {
    let mean = gpu.sm_clock_mhz_mean?;
    let is_gb10 = gpu.name.as_ref().is_some_and(|name| name.contains("GB10"));
    let stuck = is_gb10 && mean < GB10_CLOCK_MHZ;
    let share = gpu.sm_clock_mhz_limit.filter(|limit| *limit > 0.0).map(|limit| mean / limit);
    let low = share.is_some_and(|share| share < CLOCK_SHARE);
    (low || stuck).then(|| {
        let of_maximum =
            share.map_or(String::new(), |share| format!(", {} of its maximum", percent(share)));
        let cure = if stuck { "; unplug its power for a minute" } else { "" };
        let text = format!("GPU {} ran at {mean:.0} MHz on average{of_maximum}{cure}", gpu.index);
        let severity = if stuck { Severity::Invalid } else { Severity::Flagged };
        let flag = Flag::new(FlagName::LowClock, severity, text);
        flag.number("gpu", f64::from(gpu.index)).number("sm_clock_mhz_mean", mean)
    })
}

fn throttled(gpu: &GpuFacts) -> Option<Flag> {
    let counts = |reason: &str| !reason.contains("idle") && !reason.contains("power_cap");
    let reasons: Vec<(&String, f64)> = gpu
        .throttle_share
        .iter()
        .filter(|(reason, share)| counts(reason) && **share > THROTTLE_SHARE)
        .map(|(reason, share)| (reason, *share))
        .collect();
    let worst = reasons.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    (!reasons.is_empty()).then(|| {
        let each: Vec<String> = reasons
            .iter()
            .map(|(reason, share)| format!("{reason} in {} of samples", percent(*share)))
            .collect();
        let text = format!("GPU {} held itself back: {}", gpu.index, each.join(", "));
        let flag = Flag::flagged(FlagName::Throttled, text);
        flag.number("gpu", f64::from(gpu.index)).number("share_max", worst)
    })
}

fn short_for_power(summary: &LevelSummary) -> Option<Flag> {
    let window = summary.steady.map_or(summary.wall, |steady| steady.length());
    (window < POWER_WINDOW).then(|| {
        let seconds = window.as_secs_f64();
        let text = format!(
            "the window of {seconds:.2} s is shorter than power sensors average over: power and \
             energy are rough"
        );
        Flag::flagged(FlagName::LevelShorterThanPowerWindow, text).number("window_s", seconds)
    })
}

/// For every level of one life of a server, once it is over: memory in use ten seconds after its
/// stop, above what was in use before its start.
pub fn memory_not_released(bytes: u64, memory: Memory) -> Option<Flag> {
    (bytes > MEMORY_SLACK_BYTES).then(|| {
        let mb = bytes as f64 / 1e6;
        let text = match memory {
            Memory::Devices => format!("{mb:.0} MB of device memory were not given back"),
            Memory::Machine => format!(
                "{mb:.0} MB more of the machine's memory were in use after the stop than before the \
                 start: the server's, or another process's"
            ),
        };
        Flag::flagged(FlagName::MemoryNotReleased, text).number("bytes", bytes as f64)
    })
}
