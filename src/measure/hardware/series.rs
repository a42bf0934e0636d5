//! Points in time: windows, values at their edges, how well a window was sampled.

use std::time::Duration;

/// A span of time since the sampler's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: Duration,
    /// Its end; not before `from`.
    pub to: Duration,
}

impl Window {
    /// How long it is.
    pub fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// Whether the instant lies in it, both ends included.
    pub fn holds(self, at: Duration) -> bool {
        self.from <= at && at <= self.to
    }
}

/// A value read at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When.
    pub at: Duration,
    /// What.
    pub value: f64,
}

/// The value at an instant, linear between the two points around it; `None` outside of them.
pub(super) fn value_at(points: &[Point], at: Duration) -> Option<f64> {
    let after = points.partition_point(|point| point.at < at);
    let right = points.get(after)?;
    if right.at == at {
        return Some(right.value);
    }
    let left = points.get(after.checked_sub(1)?)?;
    let share = (at - left.at).as_secs_f64() / (right.at - left.at).as_secs_f64();
    Some(left.value + share * (right.value - left.value))
}

/// The points in the window, with interpolated ones at its edges; `None` where points do not reach
/// both edges, since what happened beyond them is not known.
pub(super) fn clipped(points: &[Point], window: Window) -> Option<Vec<Point>> {
    let first = Point { at: window.from, value: value_at(points, window.from)? };
    let last = Point { at: window.to, value: value_at(points, window.to)? };
    let inside = points.iter().filter(|point| window.from < point.at && point.at < window.to);
    let mut clipped = vec![first];
    clipped.extend(inside);
    clipped.push(last);
    Some(clipped)
}

/// Arithmetic mean; `None` of nothing.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, n) =
        values.into_iter().fold((0.0, 0_u32), |(sum, n), value| (sum + value, n.saturating_add(1)));
    (n > 0).then(|| sum / f64::from(n))
}

/// Largest value; `None` of nothing.
pub(super) fn max(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().reduce(f64::max)
}

/// Smallest value; `None` of nothing.
pub(super) fn min(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().reduce(f64::min)
}

/// A count or a number of bytes that came as a float, as the whole number next to it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, not negative"
)]
pub(super) fn whole(count: f64) -> u64 {
    count.round().max(0.0) as u64
}

/// One reading of a source: when, how long it took, and what the thread had used until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRow {
    /// Its start.
    pub at: Duration,
    /// How long the reading took.
    pub took: Duration,
    /// CPU time of the source's thread since it started.
    pub thread_cpu: Duration,
}

/// How well a source was sampled in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SourceFigures {
    /// Readings in the window.
    pub samples: u64,
    /// Time between successive readings, median.
    pub period_ms_p50: Option<f64>,
    /// Time between successive readings, largest; those across the window's edges count.
    pub period_ms_max: Option<f64>,
    /// Share of the window that lies within one period of a reading.
    pub coverage: f64,
    /// How long a reading took, largest.
    pub read_ms_max: Option<f64>,
    /// CPU time of the thread ÷ time: its share of one core.
    pub cpu_share: Option<f64>,
}

/// How well the window was sampled, for a period that was asked for.
pub(super) fn source_figures(
    rows: &[SourceRow],
    window: Window,
    period: Duration,
) -> SourceFigures {
    let inside: Vec<&SourceRow> = rows.iter().filter(|row| window.holds(row.at)).collect();
    let mut periods: Vec<f64> = rows
        .windows(2)
        .filter(|pair| pair[1].at >= window.from && pair[0].at <= window.to)
        .map(|pair| (pair[1].at - pair[0].at).as_secs_f64() * 1e3)
        .collect();
    periods.sort_by(f64::total_cmp);
    let cpu_share = inside.first().zip(inside.last()).and_then(|(first, last)| {
        let time = (last.at - first.at).as_secs_f64();
        let cpu = last.thread_cpu.saturating_sub(first.thread_cpu).as_secs_f64();
        (time > 0.0).then(|| cpu / time)
    });
    SourceFigures {
        samples: inside.len() as u64,
        period_ms_p50: median(&periods),
        period_ms_max: periods.last().copied(),
        coverage: coverage(rows, window, period),
        read_ms_max: max(inside.iter().map(|row| row.took.as_secs_f64() * 1e3)),
        cpu_share,
    }
}

/// Median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// Share of the window within one period of a reading, on either side.
fn coverage(rows: &[SourceRow], window: Window, period: Duration) -> f64 {
    let length = window.length().as_secs_f64();
    if length == 0.0 {
        return if rows.iter().any(|row| row.at == window.from) { 1.0 } else { 0.0 };
    }
    let mut covered = Duration::ZERO;
    let mut until = window.from;
    for row in rows {
        let start = row.at.saturating_sub(period).max(until);
        let end = (row.at + period).min(window.to);
        if end > start {
            covered += end - start;
            until = end;
        }
    }
    (covered.as_secs_f64() / length).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn rows(at: &[u64]) -> Vec<SourceRow> {
        at.iter()
            .map(|at| SourceRow { at: ms(*at), took: ms(1), thread_cpu: ms(*at / 100) })
            .collect()
    }

    #[test]
    fn a_window_between_two_points_takes_its_edges_from_the_line_between_them() {
        let points = [Point { at: ms(0), value: 0.0 }, Point { at: ms(4000), value: 10.0 }];
        let window = Window { from: ms(1000), to: ms(3000) };
        let clipped = clipped(&points, window).unwrap();
        assert_eq!(clipped.iter().map(|p| p.value).collect::<Vec<_>>(), [2.5, 7.5]);
    }

    #[test]
    fn what_the_points_do_not_reach_is_not_known() {
        let points = [Point { at: ms(10), value: 1.0 }, Point { at: ms(90), value: 1.0 }];
        assert!(clipped(&points, Window { from: ms(0), to: ms(50) }).is_none());
        assert!(clipped(&points, Window { from: ms(50), to: ms(100) }).is_none());
        assert!(clipped(&[], Window { from: ms(0), to: ms(0) }).is_none());
    }

    #[test]
    fn a_hole_in_the_samples_lowers_the_coverage_and_raises_the_largest_period() {
        let window = Window { from: ms(0), to: ms(2000) };
        let even = rows(&(0..=20).map(|i| i * 100).collect::<Vec<_>>());
        let whole = source_figures(&even, window, ms(100));
        assert_eq!((whole.samples, whole.coverage), (21, 1.0));
        assert_eq!(whole.period_ms_p50, Some(100.0));
        assert!((whole.cpu_share.unwrap() - 0.01).abs() < 1e-12);
        let holed: Vec<SourceRow> =
            even.into_iter().filter(|row| !(ms(450)..ms(1450)).contains(&row.at)).collect();
        let holed = source_figures(&holed, window, ms(100));
        assert_eq!(holed.samples, 11);
        assert!((holed.coverage - 0.55).abs() < 1e-12, "{}", holed.coverage);
        assert_eq!(holed.period_ms_max, Some(1100.0));
    }

    #[test]
    fn a_window_without_a_sample_is_not_covered() {
        let window = Window { from: ms(5000), to: ms(6000) };
        let figures = source_figures(&rows(&[0, 100]), window, ms(100));
        assert_eq!((figures.samples, figures.coverage), (0, 0.0));
        assert_eq!((figures.period_ms_p50, figures.cpu_share), (None, None));
    }
}
