//! Energy of a window: a counter's difference, or power integrated over time.
//!
//! Order of belief for joules per token: what the config says a wall meter showed (the whole box);
//! the device's own counter; integrated power; where there is no device that tells, the CPU package's
//! counter, or a hardware monitor's on machines without one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::gpu::{self, GpuFigures};
use super::host;
use super::reading::{Capability, GpuMetric};
use super::series::{Point, Window, clipped};
use super::{Figures, Load, Samples, ServerPlace};

/// Where an energy figure is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnergySource {
    /// The device's energy counter.
    Counter,
    /// Power over time, by the trapezoid rule.
    IntegratedPower,
    /// The CPU package's counter.
    Rapl,
    /// One of the kernel's hardware monitors.
    Hwmon,
    /// A wall meter's figure from the config.
    WallPower,
}

impl EnergySource {
    /// The name that results carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::IntegratedPower => "integrated_power",
            Self::Rapl => "rapl",
            Self::Hwmon => "hwmon",
            Self::WallPower => "wall_power",
        }
    }
}

/// Joules under a curve of watts, by the trapezoid rule; `None` for fewer than two points.
pub fn integrate(points: &[Point]) -> Option<f64> {
    if points.len() < 2 {
        return None;
    }
    let slices = points.windows(2).map(|pair| {
        (pair[1].at - pair[0].at).as_secs_f64() * f64::midpoint(pair[0].value, pair[1].value)
    });
    Some(slices.sum())
}

/// Why a counter gives no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// It did not grow at all, and nothing that runs takes no energy: nobody counts, as in some virtual
    /// machines, or the window has no length.
    #[error("the counter did not move in the window")]
    StandsStill,
    /// The readings do not reach both edges of the window.
    #[error("the readings do not reach both ends of the window")]
    NotCovered,
    /// It fell: the driver was reloaded, or the device reset.
    #[error("the counter went back at {at:.1?} of the recording")]
    WentBack {
        /// When, since the epoch.
        at: Duration,
    },
}

/// How much a cumulative counter grew over the window, with its values at the edges by
/// interpolation.
///
/// # Errors
/// Where the readings do not reach both edges, or the counter fell in between.
pub fn counter_delta(points: &[Point], window: Window) -> Result<f64, CounterError> {
    let clipped = clipped(points, window).ok_or(CounterError::NotCovered)?;
    // The edges are taken from the readings around them, so a fall across an edge is seen too.
    let before = points.partition_point(|point| point.at <= window.from).saturating_sub(1);
    let after = points.partition_point(|point| point.at < window.to);
    let used = &points[before..=after.min(points.len() - 1)];
    if let Some(pair) = used.windows(2).find(|pair| pair[1].value < pair[0].value) {
        return Err(CounterError::WentBack { at: pair[1].at });
    }
    Ok(clipped[clipped.len() - 1].value - clipped[0].value)
}

/// Joules that an energy counter grew by over the window.
///
/// # Errors
/// As [`counter_delta`], and where it did not grow.
pub fn energy_delta(points: &[Point], window: Window) -> Result<f64, CounterError> {
    let joules = counter_delta(points, window)?;
    if joules > 0.0 { Ok(joules) } else { Err(CounterError::StandsStill) }
}

/// How much a counter that wraps grew between two readings: the range is added once where it fell.
///
/// The reader must come by at least once in each turn of the counter.
pub fn counter_step(before: u64, now: u64, range: u64) -> u64 {
    if now >= before { now - before } else { now + range.saturating_sub(before) }
}

/// The least of a span without load that says what the power at rest is: sensors average over up to
/// a second.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// The part of a span from the first of the points on: a source has to be opened, so its readings
/// begin a little after the sampler does.
///
/// # Errors
/// In words, where that is less than [`LEAST_IDLE`].
fn from_first_reading(points: &[Point], span: Window) -> Result<Window, String> {
    let first = points.first().ok_or("the power at rest was not read")?;
    let read = Window { from: span.from.max(first.at), to: span.to };
    if read.length() < LEAST_IDLE {
        let (had, needed) = (read.length(), LEAST_IDLE);
        return Err(format!("{had:.1?} of readings at rest before the level, {needed:?} needed"));
    }
    Ok(read)
}

/// A device's power over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Power {
    /// Watts at each instant; empty where it does not tell.
    pub instant_w: Vec<Point>,
    /// Watts, as an average over a second on most devices.
    pub average_w: Vec<Point>,
}

impl Power {
    /// Joules over the window and what was integrated, in words: what is told of an instant first,
    /// since an average still remembers what was before the window.
    fn integrate(&self, window: Window) -> Option<(f64, &'static str)> {
        let joules = |points| integrate(&clipped(points, window)?).filter(|joules| *joules > 0.0);
        let instant = joules(&self.instant_w).map(|joules| (joules, "power"));
        instant.or_else(|| Some((joules(&self.average_w)?, "power, an average over a second,")))
    }
}

/// Mean watts at rest: from the counter if it can say, else the time-weighted mean of power.
///
/// # Errors
/// In words, where readings do not reach over enough of the span, up to its end.
pub fn power_at_rest(energy_j: &[Point], power: &Power, span: Window) -> Result<f64, String> {
    let by_counter = from_first_reading(energy_j, span).and_then(|span| {
        let joules = energy_delta(energy_j, span).map_err(|error| format!("at rest {error}"))?;
        Ok(joules / span.length().as_secs_f64())
    });
    by_counter.or_else(|why| {
        let why = if energy_j.is_empty() { None } else { Some(why) };
        let told = [&power.instant_w, &power.average_w].into_iter().find(|told| !told.is_empty());
        let told = told.map_or(&[][..], Vec::as_slice);
        let span = from_first_reading(told, span).map_err(|other| why.unwrap_or(other))?;
        let joules = power.integrate(span).ok_or("no reading at rest up to the level's start")?.0;
        Ok(joules / span.length().as_secs_f64())
    })
}

/// Energy of one device over the window, its source, and why there is none or no counter.
/// `untold` says why a metric has no reading at all.
pub(super) fn of_device(
    energy_j: &[Point],
    power: &Power,
    window: Window,
    untold: impl Fn(GpuMetric) -> String,
) -> (Option<(f64, EnergySource)>, Option<String>) {
    let no_counter = match energy_delta(energy_j, window) {
        Ok(joules) => return (Some((joules, EnergySource::Counter)), None),
        Err(_) if energy_j.is_empty() => untold(GpuMetric::Energy),
        Err(error) => error.to_string(),
    };
    let no_power = match power.integrate(window) {
        Some((joules, what)) => {
            let text = format!("energy counter: {no_counter}; {what} was integrated instead");
            return (Some((joules, EnergySource::IntegratedPower)), Some(text));
        }
        None if power.average_w.is_empty() => untold(GpuMetric::Power),
        None => CounterError::NotCovered.to_string(),
    };
    (None, Some(format!("energy counter: {no_counter}; power: {no_power}")))
}

/// What a level says of energy, by its keys in the results.
const KEYS: [&str; 5] =
    ["energy_j", "energy_source", "joules_per_output_token", "joules_per_total_token", ABOVE_IDLE];
const ABOVE_IDLE: &str = "joules_per_output_token_above_idle";
/// The path of the hardware monitor's energy.
const HWMON: &str = "host.hwmon_energy_j";
/// Why a server on another machine has no figure.
const ELSEWHERE: &str = "the server is elsewhere";
/// Why nothing was used in a window.
const NO_LENGTH: &str = "the window has no length";
/// Why nothing can be divided by tokens.
const NO_TOKENS: &str = "the number of tokens in the window is not known, or 0";

/// Fills in the level's energy and what it comes to per token.
pub(super) fn per_token(
    samples: &Samples,
    window: Window,
    load: &Load,
    out: &mut Figures,
    reasons: &mut BTreeMap<String, String>,
) {
    let seconds = window.length().as_secs_f64();
    let found = match load.wall_power_w {
        _ if window.length().is_zero() => Err(NO_LENGTH.to_owned()),
        Some(watts) => Ok((watts * seconds, EnergySource::WallPower)),
        None if load.place == ServerPlace::Elsewhere => Err(ELSEWHERE.to_owned()),
        None if out.gpus.iter().any(|gpu| counts(gpu, &out.gpus)) => {
            let silent =
                out.gpus.iter().all(|gpu| !counts(gpu, &out.gpus) || cannot_tell(gpu, out));
            let of_sensor = || of_sensor(out).filter(|_| silent);
            of_gpus(&out.gpus, reasons).or_else(|why| of_sensor().ok_or(why))
        }
        None => of_packages(out, reasons).or_else(|why| of_sensor(out).ok_or(why)),
    };
    let (joules, source) = match found {
        Ok(found) => found,
        Err(why) => {
            reasons.extend(KEYS.map(|key| (key.to_owned(), why.clone())));
            return;
        }
    };
    if let Some(sensor) = reasons.get(HWMON).filter(|_| source == EnergySource::Hwmon) {
        reasons.insert("energy_j".to_owned(), sensor.clone());
    }
    out.energy_j = Some(joules);
    out.energy_source = Some(source);
    let divided = |joules: f64, tokens: Option<f64>| {
        tokens.filter(|tokens| *tokens > 0.0).map(|tokens| joules / tokens)
    };
    out.joules_per_output_token = divided(joules, load.output_tokens);
    out.joules_per_total_token = divided(joules, load.total_tokens);
    for (key, value) in [
        ("joules_per_output_token", out.joules_per_output_token),
        ("joules_per_total_token", out.joules_per_total_token),
    ] {
        if value.is_none() {
            reasons.insert(key.to_owned(), NO_TOKENS.to_owned());
        }
    }
    let no_span = || "no idle span before the level was recorded".to_owned();
    let idle = load.idle.ok_or_else(no_span);
    let idle = idle.and_then(|span| idle_power(samples, out, source, span));
    let above = idle.and_then(|watts| {
        let above = joules - watts * seconds;
        divided(above, load.output_tokens).ok_or_else(|| NO_TOKENS.to_owned())
    });
    match above {
        Ok(joules) => out.joules_per_output_token_above_idle = Some(joules),
        Err(why) => {
            reasons.insert(ABOVE_IDLE.to_owned(), why);
        }
    }
}

/// Whether a device counts towards the level's energy: those that the server uses do, or, where none
/// is known to be one, those of which that cannot be told.
fn counts(gpu: &GpuFigures, gpus: &[GpuFigures]) -> bool {
    let known = gpus.iter().any(|gpu| gpu.used_by_server == Some(true));
    gpu.used_by_server == if known { Some(true) } else { None }
}

fn of_gpus(
    gpus: &[GpuFigures],
    reasons: &BTreeMap<String, String>,
) -> Result<(f64, EnergySource), String> {
    let mut total = 0.0;
    let mut worst = EnergySource::Counter;
    for gpu in gpus.iter().filter(|gpu| counts(gpu, gpus)) {
        let (Some(joules), Some(source)) = (gpu.energy_j, gpu.energy_source) else {
            let why = reasons.get(&format!("gpus.{}.energy_j", gpu.index));
            let why = why.map_or("no figure", String::as_str);
            return Err(format!("no energy of GPU {}: {why}", gpu.index));
        };
        total += joules;
        worst = worst.max(source);
    }
    Ok((total, worst))
}

fn of_packages(
    out: &Figures,
    reasons: &BTreeMap<String, String>,
) -> Result<(f64, EnergySource), String> {
    let joules = out.host.as_ref().and_then(|host| host.cpu_energy_j);
    joules.map(|joules| (joules, EnergySource::Rapl)).ok_or_else(|| {
        let why = reasons.get("host.cpu_energy_j").map_or("no figure", String::as_str);
        let gpu = if out.gpus.is_empty() { "no GPU" } else { "the server uses no GPU" };
        format!("{gpu}, and no energy of the CPU: {why}")
    })
}

/// Whether a device lacks everything that energy could be from, as a Jetson's does.
fn cannot_tell(gpu: &GpuFigures, out: &Figures) -> bool {
    let lacks = |metric: GpuMetric| {
        let path = format!("gpus.{}.{}", gpu.index, metric.key());
        out.capabilities.get(&path) == Some(&Capability::NotSupported)
    };
    [GpuMetric::Energy, GpuMetric::Power, GpuMetric::PowerInstant].into_iter().all(lacks)
}

/// The figure of the hardware monitor, which is there only on machines without RAPL.
fn of_sensor(out: &Figures) -> Option<(f64, EnergySource)> {
    Some((out.host.as_ref()?.hwmon_energy_j?, EnergySource::Hwmon))
}

/// Watts at rest of what the level's energy is from.
fn idle_power(
    samples: &Samples,
    out: &Figures,
    source: EnergySource,
    span: Window,
) -> Result<f64, String> {
    match source {
        EnergySource::WallPower => {
            Err("the config's wall_power_w says nothing of the power at rest".to_owned())
        }
        EnergySource::Rapl | EnergySource::Hwmon => {
            // A machine has one of the two.
            let points =
                host::points(&samples.host.readings, |row| row.cpu_energy_j.or(row.hwmon_energy_j));
            power_at_rest(&points, &Power::default(), span)
        }
        EnergySource::Counter | EnergySource::IntegratedPower => {
            let pairs = samples.gpus.iter().zip(&out.gpus);
            let counted = pairs.filter(|(_, figures)| counts(figures, &out.gpus));
            counted.map(|(track, _)| gpu::power_at_rest(track, span)).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<Point> {
        pairs.iter().map(|(t, v)| Point { at: Duration::from_secs_f64(*t), value: *v }).collect()
    }

    fn window(from: f64, to: f64) -> Window {
        Window { from: Duration::from_secs_f64(from), to: Duration::from_secs_f64(to) }
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * right.abs()
    }

    /// V20: the trapezoid over uneven samples.
    #[test]
    fn power_integrates_by_the_trapezoid_rule() {
        let times = [0.0, 0.1, 0.2, 0.35, 0.5, 0.6, 1.0];
        let watts = [12.0, 38.5, 41.2, 40.8, 42.0, 39.9, 13.1];
        let curve: Vec<(f64, f64)> = times.into_iter().zip(watts).collect();
        assert!(close(integrate(&points(&curve)).unwrap(), 33.565));
        assert_eq!(integrate(&points(&curve[..1])), None);
    }

    #[test]
    fn edges_between_two_readings_are_interpolated() {
        let counter = points(&[(0.0, 0.0), (1.0, 100.0), (2.0, 120.0), (3.0, 200.0)]);
        assert!(close(counter_delta(&counter, window(0.5, 2.5)).unwrap(), 110.0));
    }

    #[test]
    fn a_counter_that_went_back_or_does_not_reach_the_edges_says_so() {
        let reset = points(&[(0.0, 100.0), (1.0, 200.0), (2.0, 5.0), (3.0, 50.0)]);
        let at = Duration::from_secs(2);
        let went_back = Err(CounterError::WentBack { at });
        assert_eq!(counter_delta(&reset, window(0.0, 3.0)), went_back);
        assert_eq!(counter_delta(&reset, window(0.5, 1.5)), went_back);
        assert_eq!(counter_delta(&reset, window(0.0, 1.0)), Ok(100.0));
        assert_eq!(counter_delta(&reset, window(2.0, 4.0)), Err(CounterError::NotCovered));
        assert_eq!(counter_delta(&[], window(0.0, 1.0)), Err(CounterError::NotCovered));
    }

    /// D12: where the counter wrapped, its range is added once.
    #[test]
    fn a_counter_that_wraps_goes_on() {
        let range = 262_143_328_850;
        assert_eq!(counter_step(1_000, 4_500, range), 3_500);
        assert_eq!(counter_step(range - 1_000, 500, range), 1_500);
        assert_eq!(counter_step(7, 7, range), 0);
    }
}
