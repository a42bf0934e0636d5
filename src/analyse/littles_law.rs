//! Little's law as a test: what each concurrency should give on a server that does one request at
//! a time, and on one that does all at once.

use std::time::Duration;

/// What one level says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelPoint {
    /// Requests in flight.
    pub concurrency: u32,
    /// Mean end-to-end latency: W.
    pub e2e_mean: Duration,
    /// Half of the 95 % interval of that mean, which counts only independent observations; `None`
    /// where there are too few, or none are known.
    pub e2e_half: Option<Duration>,
    /// Median time to first token.
    pub ttft_p50: Duration,
    /// Tokens per second, of all streams together.
    pub throughput_tps: f64,
}

/// What a server that does one request at a time would give at concurrency c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SerialExpectation {
    /// c·S.
    pub e2e_mean: Duration,
    /// (c − 1)·S + TTFT₁.
    pub ttft_p50: Duration,
}

/// The expectation from the c = 1 level: each request waits for the c − 1 before it.
pub fn serial_expectation(
    e2e_single: Duration,
    ttft_single: Duration,
    concurrency: u32,
) -> SerialExpectation {
    SerialExpectation {
        e2e_mean: e2e_single * concurrency,
        ttft_p50: e2e_single * concurrency.saturating_sub(1) + ttft_single,
    }
}

/// One level against both expectations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Requests in flight.
    pub concurrency: u32,
    /// W(c).
    pub e2e_mean: Duration,
    /// Half of its 95 % interval.
    pub e2e_half: Option<Duration>,
    /// W(c) / (c·S₁): 1 for a serial server, 1/c for a perfect batching one.
    pub e2e_ratio: f64,
    /// Its 95 % interval, from the relative errors of W(c) and S₁; `None` where one is not known.
    pub e2e_ratio_interval: Option<[f64; 2]>,
    /// TTFT(c) / ((c − 1)·E2E₁ + TTFT₁): 1 for a serial server, near 0 for a batching one.
    pub ttft_ratio: f64,
    /// X(c)/X(1): 1 for a serial server, c for a perfect batching one.
    pub throughput_ratio: f64,
    /// (W(c) − W(1)) / ((c − 1)·W(1)): 1 serial, 0 perfectly parallel.
    pub serialness: f64,
    /// What that looks like.
    pub behaviour: Behaviour,
}

/// How a server treats several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// One at a time: waits grow with c, throughput does not.
    Serial,
    /// All at once, at a price that is small.
    Batching,
    /// Something between: some at once, or all at a pace that suffers.
    Between,
    /// It cannot be told: the interval holds one at a time and all at once.
    Unknown,
}

/// A serial server's serialness is at least this much.
const SERIAL_FROM: f64 = 0.9;
/// A batching server's serialness is at most this much.
const BATCHING_TO: f64 = 0.2;

impl Behaviour {
    fn of(serialness: f64) -> Self {
        if serialness >= SERIAL_FROM {
            Self::Serial
        } else if serialness <= BATCHING_TO {
            Self::Batching
        } else {
            Self::Between
        }
    }
}

/// Each level above c = 1 against the c = 1 level; empty without one.
pub fn check(levels: &[LevelPoint]) -> Vec<Check> {
    let Some(single) = levels.iter().find(|level| level.concurrency == 1) else {
        return Vec::new();
    };
    let rest = levels.iter().filter(|level| level.concurrency > 1);
    rest.map(|level| check_level(single, level)).collect()
}

fn check_level(single: &LevelPoint, level: &LevelPoint) -> Check {
    let expected = serial_expectation(single.e2e_mean, single.ttft_p50, level.concurrency);
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    let others = f64::from(level.concurrency - 1);
    let serialness = (ratio(level.e2e_mean, single.e2e_mean) - 1.0) / others;
    let e2e_ratio = ratio(level.e2e_mean, expected.e2e_mean);
    // On the scale of logarithms, as for rates: a ratio is above nought.
    let relative = |point: &LevelPoint| Some(ratio(point.e2e_half?, point.e2e_mean));
    let half = relative(single).zip(relative(level)).map(|(one, other)| one.hypot(other));
    let e2e_ratio_interval = half.map(|half| [e2e_ratio * (-half).exp(), e2e_ratio * half.exp()]);
    let ends = e2e_ratio_interval.map(|ends| {
        let c = f64::from(level.concurrency);
        ends.map(|end| Behaviour::of((end * c - 1.0) / others))
    });
    let behaviour = match ends {
        Some([Behaviour::Batching, Behaviour::Serial]) => Behaviour::Unknown,
        _ => Behaviour::of(serialness),
    };
    Check {
        concurrency: level.concurrency,
        e2e_mean: level.e2e_mean,
        e2e_half: level.e2e_half,
        e2e_ratio,
        e2e_ratio_interval,
        ttft_ratio: ratio(level.ttft_p50, expected.ttft_p50),
        throughput_ratio: level.throughput_tps / single.throughput_tps,
        serialness,
        behaviour,
    }
}

impl Check {
    /// The check in words.
    pub fn sentence(&self) -> String {
        let c = self.concurrency;
        let (times, wait) = (self.throughput_ratio, self.e2e_ratio * f64::from(c));
        let interval = self.wait_interval();
        match self.behaviour {
            Behaviour::Serial => format!(
                "c={c}: one at a time. Requests took {wait:.1}× as long as alone ({interval}{} {c}×), \
                 the first token came after {:.0} % of the wait that c − 1 requests \
                 ahead explain, and throughput stayed at {times:.2}×.{}",
                match self.is_serial_wait() {
                    Some(true) => "consistent with Little's law:",
                    _ => "Little's law says",
                },
                self.ttft_ratio * 100.0,
                self.beyond_the_law()
            ),
            Behaviour::Batching => format!(
                "c={c}: all at once. Requests took {wait:.2}× as long as alone ({interval}perfect \
                 would be 1×), and throughput grew {times:.1}× (perfect would be {c}×).{}",
                self.better_than_perfect()
            ),
            Behaviour::Between => format!(
                "c={c}: between one at a time and all at once (serialness {:.2}). Requests took \
                 {wait:.1}× as long as alone ({interval}one at a time: {c}×, perfect: 1×), and \
                 throughput grew {times:.1}× (one at a time: 1×, perfect: {c}×).",
                self.serialness
            ),
            Behaviour::Unknown => format!(
                "c={c}: cannot be told. Requests took {wait:.1}× as long as alone ({interval}one at \
                 a time: {c}×, perfect: 1×): too unsteady a time, here or at c=1, to say which."
            ),
        }
    }
}

/// What a serial server's end-to-end time may be off Little's law: measured ones stay within it.
const TOLERANCE: f64 = 0.03;

impl Check {
    /// Whether the wait is what one request at a time gives, as far as the interval tells; `None`
    /// without one.
    pub fn is_serial_wait(&self) -> Option<bool> {
        self.e2e_ratio_interval.map(|[low, high]| low <= 1.0 && 1.0 <= high)
    }

    /// The interval of W(c)/W(1), before what it is set against; empty without one.
    fn wait_interval(&self) -> String {
        let c = f64::from(self.concurrency);
        let text = |[low, high]: [f64; 2]| format!("95 %: {:.2} to {:.2}; ", low * c, high * c);
        self.e2e_ratio_interval.map_or(String::new(), text)
    }

    /// What it means that c requests at once brought more than c times one.
    fn better_than_perfect(&self) -> &'static str {
        if self.throughput_ratio > f64::from(self.concurrency) * (1.0 + TOLERANCE) {
            " That is more than there can be: the machine was slower at c=1 than it was here, so \
             the two levels cannot be compared."
        } else {
            ""
        }
    }

    /// What a serial server's deviation from the law means; empty within the tolerance, and where
    /// it may be chance.
    fn beyond_the_law(&self) -> &'static str {
        if self.is_serial_wait() == Some(true) {
            ""
        } else if self.e2e_ratio > 1.0 + TOLERANCE {
            " That is more than waiting explains: each request itself took longer than at c=1 (the \
             server is slower with others in its queue, or the machine was slower by then)."
        } else if self.e2e_ratio < 1.0 - TOLERANCE {
            " That is less than one at a time takes: each request itself was faster than at c=1 (a \
             cache, two at once in part, or a machine that was faster by then)."
        } else {
            ""
        }
    }
}

/// Mean wait in the queue of a serial server under Poisson arrivals (M/G/1):
/// ρ·S·(1 + CV²) / (2·(1 − ρ)), CV being the service times' coefficient of variation.
/// `None` unless 0 ≤ ρ < 1.
pub fn mg1_wait(service: Duration, load: f64, cv: f64) -> Option<Duration> {
    let factor = load * (1.0 + cv * cv) / (2.0 * (1.0 - load));
    (0.0..1.0).contains(&load).then(|| service.mul_f64(factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::tests::assert_close;

    fn seconds(time: f64) -> Duration {
        Duration::from_secs_f64(time)
    }

    #[test]
    fn a_serial_server() {
        let table =
            [(1, 15.2, 0.125), (4, 60.8, 45.725), (16, 243.2, 228.125), (64, 972.8, 957.725)];
        for (c, e2e, ttft) in table {
            let got = serial_expectation(seconds(15.2), seconds(0.125), c);
            assert_eq!((got.e2e_mean, got.ttft_p50), (seconds(e2e), seconds(ttft)));
        }
    }

    #[test]
    fn waits_under_poisson_arrivals() {
        for (load, wait) in [(0.5, 7.6), (0.8, 30.4), (0.9, 68.4)] {
            assert_close(mg1_wait(seconds(15.2), load, 0.0).unwrap().as_secs_f64(), wait);
        }
        assert_eq!(mg1_wait(seconds(15.2), 1.0, 0.0), None);
    }

    #[test]
    fn behaviours() {
        let point = |concurrency, e2e, ttft, throughput_tps| LevelPoint {
            concurrency,
            e2e_mean: seconds(e2e),
            e2e_half: None,
            ttft_p50: seconds(ttft),
            throughput_tps,
        };
        let single = point(1, 2.0, 0.1, 50.0);
        let levels = [
            single,
            point(4, 8.0, 6.1, 50.0),
            point(16, 4.0, 0.3, 400.0),
            point(64, 64.0, 30.0, 100.0),
        ];
        let checks = check(&levels);
        let found: Vec<Behaviour> = checks.iter().map(|check| check.behaviour).collect();
        assert_eq!(found, [Behaviour::Serial, Behaviour::Batching, Behaviour::Between]);
        assert_close(checks[0].e2e_ratio, 1.0);
        assert_close(checks[0].ttft_ratio, 1.0);
        assert_close(checks[1].throughput_ratio, 8.0);
        assert!(checks[0].sentence().contains("one at a time"));
        assert!(checks[0].sentence().ends_with("stayed at 1.00×."));
        let slower = check(&[single, point(4, 8.6, 6.6, 46.0)]);
        assert!(slower[0].sentence().contains("more than waiting explains"), "{slower:?}");
        let impossible = check(&[single, point(2, 1.0, 0.4, 46.0 * 4.5)]);
        assert!(impossible[0].sentence().contains("more than there can be"), "{impossible:?}");
        assert_eq!(check(&levels[1..]), []);
    }

    #[test]
    fn an_interval_says_whether_a_deviation_may_be_chance() {
        let point = |concurrency, e2e: f64, half: f64| LevelPoint {
            concurrency,
            e2e_mean: seconds(e2e),
            e2e_half: Some(seconds(half)),
            ttft_p50: seconds(e2e * 0.9),
            throughput_tps: 50.0,
        };
        let found = |half| check(&[point(1, 2.0, 0.06), point(4, 8.6, half)])[0];
        // 3 % and 4 % together are 5 %: 1.075·e^±0.05.
        let chance = found(8.6 * 0.1);
        let precise = found(8.6 * 0.04);
        let [low, high] = precise.e2e_ratio_interval.unwrap();
        assert_close(low, 1.075 * (-0.05_f64).exp());
        assert_close(high, 1.075 * 0.05_f64.exp());
        assert_eq!((chance.is_serial_wait(), precise.is_serial_wait()), (Some(true), Some(false)));
        let said = chance.sentence();
        assert!(said.contains("(95 %: 3.87 to 4.77; consistent with Little's law: 4×)"), "{said}");
        assert!(!said.contains("more than waiting explains"), "{said}");
        let said = precise.sentence();
        assert!(said.contains("(95 %: 4.09 to 4.52; Little's law says 4×)"), "{said}");
        assert!(said.contains("more than waiting explains"), "{said}");
    }

    #[test]
    fn an_interval_that_holds_both_says_neither() {
        let point = |concurrency, e2e: f64, half: f64| LevelPoint {
            concurrency,
            e2e_mean: seconds(e2e),
            e2e_half: Some(seconds(half)),
            ttft_p50: seconds(e2e * 0.9),
            throughput_tps: 50.0,
        };
        // A c = 1 level of which other work took half the machine for a while.
        let found = |half| check(&[point(1, 1.2, half), point(4, 1.5, 0.1)])[0];
        assert_eq!(found(0.1).behaviour, Behaviour::Batching);
        let unsteady = found(1.9);
        assert_eq!(unsteady.behaviour, Behaviour::Unknown);
        let said = unsteady.sentence();
        assert!(said.starts_with("c=4: cannot be told. Requests took 1.2×"), "{said}");
        assert!(said.contains("(95 %: 0.26 to 6.10; one at a time: 4×"), "{said}");
    }
}
