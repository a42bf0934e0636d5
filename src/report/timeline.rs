//! One level over time: throughput, requests in flight, gaps, and the hardware on the same axis.

use super::html;
use super::svg::{Axis, Mark, Plot, Point, Series, Style, short};
use super::views::Run;
use crate::results::brief::{Brief, BriefLevel};
use crate::results::series::{LevelSeries, Track};

/// Rows of the table behind a time line.
const ROWS_MAX: usize = 24;

/// A quantity over time: its name, its unit, and a value for each bin that has one.
struct Panel {
    title: String,
    unit: &'static str,
    values: Vec<Option<f64>>,
}

/// Equal parts of a level's time.
struct Bins {
    width: f64,
    count: usize,
}

impl Bins {
    /// Calls `add` with each bin that `[from, to]` touches and the seconds it spends there.
    fn spread(&self, from: f64, to: f64, mut add: impl FnMut(usize, f64)) {
        let mut bin = self.bin(from);
        while bin < self.count && self.width * bin as f64 <= to {
            let (start, end) = (self.width * bin as f64, self.width * (bin + 1) as f64);
            add(bin, (to.min(end) - from.max(start)).max(0.0));
            bin += 1;
        }
    }

    fn bin(&self, at: f64) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let bin = (at / self.width).clamp(0.0, self.count as f64) as usize;
        bin
    }

    fn middle(&self, bin: usize) -> f64 {
        (bin as f64 + 0.5) * self.width
    }
}

/// The plots and their table; a sentence where the file holds no times.
pub fn figure(run: &Run, level: &BriefLevel, count: usize) -> String {
    let c = level.summary.concurrency;
    let title = format!("<h4>c={c} over time</h4>");
    let plots = plots(run, level, count);
    if plots.is_empty() {
        return format!(
            "{title}<p class=\"muted\">The file does not say when requests were sent.</p>"
        );
    }
    let svgs: Vec<String> = plots.iter().map(|plot| plot.svg("")).collect();
    title + &html::figure(&svgs, &table(&plots))
}

/// One plot a quantity.
pub fn plots(run: &Run, level: &BriefLevel, count: usize) -> Vec<Plot> {
    let end = level
        .requests
        .iter()
        .filter_map(|request| Some(request.start_s() + request.e2e()?))
        .fold(0.0, f64::max);
    let started = level.requests.iter().any(|request| request.start_s() > 0.0);
    if !started || end <= 0.0 {
        return Vec::new();
    }
    let bins = Bins { width: end / count as f64, count };
    let mut panels = vec![
        throughput(&level.requests, &bins),
        in_flight(&level.requests, &bins),
        gaps(&level.requests, &bins),
    ];
    if let Some(series) = level.rung().and_then(|rung| run.series.get(&rung)) {
        panels.extend(hardware(series, &bins));
    }
    let plot = |(place, panel): (usize, Panel)| {
        let tips = (count / 12).max(1);
        let point = |(bin, value): (usize, &Option<f64>)| {
            let (x, y) = (bins.middle(bin), (*value)?);
            let tip = if bin % tips == 0 {
                format!("{} s: {} {}", short(x), short(y), panel.unit)
            } else {
                String::new()
            };
            Some(Point { x, y, tip })
        };
        let points = panel.values.iter().enumerate().filter_map(point).collect();
        Plot {
            title: panel.title.clone(),
            height: 150.0,
            x: Axis::linear("s since the level's start"),
            y: Axis::linear(panel.unit),
            series: vec![Series {
                name: panel.title.clone(),
                style: Style::nth(place),
                mark: Mark::Area,
                points,
            }],
        }
    };
    panels.into_iter().enumerate().map(plot).collect()
}

/// Output tokens as they arrived: one with the first text, the others evenly until the last.
fn throughput(requests: &[Brief], bins: &Bins) -> Panel {
    let mut tokens = vec![0.0; bins.count + 1];
    for request in requests.iter().filter(|request| request.is_ok()) {
        let (Some(first), Some(n_out)) = (request.ttft(), request.n_out()) else { continue };
        let first = request.start_s() + first;
        tokens[bins.bin(first)] += 1.0;
        let last = request.last_token().map_or(first, |last| request.start_s() + last);
        if last > first {
            let rate = n_out.saturating_sub(1) as f64 / (last - first);
            bins.spread(first, last, |bin, seconds| tokens[bin] += rate * seconds);
        }
    }
    let values = tokens[..bins.count].iter().map(|tokens| Some(tokens / bins.width)).collect();
    Panel { title: "Throughput".into(), unit: "tok/s", values }
}

fn in_flight(requests: &[Brief], bins: &Bins) -> Panel {
    let mut busy = vec![0.0; bins.count];
    for request in requests {
        let end = request.start_s() + request.e2e().unwrap_or(0.0);
        bins.spread(request.start_s(), end, |bin, seconds| busy[bin] += seconds);
    }
    let values = busy.iter().map(|seconds| Some(seconds / bins.width)).collect();
    Panel { title: "Requests in flight".into(), unit: "requests", values }
}

/// The largest gap between texts; where gaps were not saved, each request's largest at its end.
fn gaps(requests: &[Brief], bins: &Bins) -> Panel {
    let mut largest: Vec<Option<f64>> = vec![None; bins.count + 1];
    let mut add = |at: f64, gap_ms: f64| {
        let slot = &mut largest[bins.bin(at)];
        *slot = Some(slot.map_or(gap_ms, |old| old.max(gap_ms)));
    };
    for request in requests {
        let Some(first) = request.ttft() else { continue };
        match request.gaps_us() {
            Some(gaps) => {
                let mut at = request.start_s() + first;
                for gap in gaps {
                    at += f64::from(*gap) / 1e6;
                    add(at, f64::from(*gap) / 1e3);
                }
            }
            None => {
                let at = request.start_s() + request.last_token().unwrap_or(first);
                if let Some(gap) = request.max_gap() {
                    add(at, gap * 1e3);
                }
            }
        }
    }
    largest.truncate(bins.count);
    Panel { title: "Largest gap between texts".into(), unit: "ms", values: largest }
}

/// What the samplers saw, of the first device and of the host.
fn hardware(series: &LevelSeries, bins: &Bins) -> Vec<Panel> {
    let known = [
        ("util_pct", "GPU utilisation", "%", 1.0),
        ("power_w", "GPU power", "W", 1.0),
        ("sm_clock_mhz", "GPU clock", "MHz", 1.0),
        ("memory_used_bytes", "GPU memory", "GB", 1e-9),
    ];
    let mut panels = Vec::new();
    for (key, title, unit, factor) in known {
        let devices = series
            .tracks
            .iter()
            .filter(|(name, _)| name.starts_with("gpus.") && name.rsplit('.').next() == Some(key));
        for (name, track) in devices {
            let index = name.split('.').nth(1).unwrap_or_default();
            let title = if index == "0" { title.to_owned() } else { format!("{title} {index}") };
            panels.push(Panel { title, unit, values: means(track, factor, bins) });
        }
    }
    let (busy, total) =
        (series.tracks.get("host.cpu_busy_s"), series.tracks.get("host.cpu_total_s"));
    if let (Some(busy), Some(total)) = (busy, total) {
        let values = means(&shares(busy, total), 1.0, bins);
        panels.push(Panel { title: "CPU, all cores".into(), unit: "%", values });
    }
    if let Some(track) = series.tracks.get("server.rss_bytes") {
        let values = means(track, 1e-9, bins);
        panels.push(Panel { title: "Server's memory (RSS)".into(), unit: "GB", values });
    }
    panels
}

/// Two counters that only grow, as the percentage of one in the other between readings.
fn shares(part: &Track, whole: &Track) -> Track {
    let pairs: Vec<(f64, f64, f64)> =
        part.iter().zip(whole).map(|((at, part), (_, whole))| (*at, *part, *whole)).collect();
    pairs
        .windows(2)
        .filter_map(|pair| {
            let [(_, part_0, whole_0), (at, part_1, whole_1)] = pair else { return None };
            let whole = whole_1 - whole_0;
            (whole > 0.0).then(|| (*at, 100.0 * (part_1 - part_0) / whole))
        })
        .collect()
}

fn means(track: &Track, factor: f64, bins: &Bins) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0.0); bins.count];
    for (at, value) in track.iter().filter(|(at, _)| *at >= 0.0) {
        if let Some((sum, count)) = sums.get_mut(bins.bin(*at)) {
            *sum += value * factor;
            *count += 1.0;
        }
    }
    sums.iter().map(|(sum, count)| (*count > 0.0).then(|| sum / count)).collect()
}

fn table(plots: &[Plot]) -> String {
    let heads: Vec<String> =
        plots.iter().map(|plot| format!("{}, {}", plot.title, plot.y.label)).collect();
    let mut head = vec!["s"];
    head.extend(heads.iter().map(String::as_str));
    let first = plots.first().map_or(&[][..], |plot| &plot.series[0].points);
    let step = first.len().div_ceil(ROWS_MAX).max(1);
    let rows: Vec<Vec<String>> = first
        .iter()
        .step_by(step)
        .map(|point| {
            let mut row = vec![short(point.x)];
            row.extend(plots.iter().map(|plot| {
                let same = plot.series[0].points.iter().find(|other| other.x >= point.x);
                same.filter(|other| other.x - point.x < 1e-9).map_or("-".into(), |p| short(p.y))
            }));
            row
        })
        .collect();
    html::table("Over time", &head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::brief::Gaps;
    use crate::results::record::RequestRecord;

    fn request(start_s: f64, ttft: f64, e2e: f64) -> Brief {
        let record = RequestRecord {
            ok: true,
            start_s,
            ttft: Some(ttft),
            last_token: Some(e2e),
            e2e: Some(e2e),
            n_out: Some(11),
            gaps_us: Some(vec![100_000, 300_000]),
            ..RequestRecord::default()
        };
        Brief::of(&record, Gaps::Keep)
    }

    #[test]
    fn no_token_and_no_second_is_lost_in_the_bins() {
        let requests = [request(0.3, 0.2, 2.2), request(1.0, 1.0, 3.0)];
        let bins = Bins { width: 0.41, count: 10 };
        let sum = |panel: Panel| panel.values.into_iter().flatten().sum::<f64>() * bins.width;
        assert!((sum(throughput(&requests, &bins)) - 22.0).abs() < 1e-9);
        assert!((sum(in_flight(&requests, &bins)) - 5.2).abs() < 1e-9);
        let gaps = gaps(&requests, &bins);
        // 0.3 + 0.2 + 0.1 + 0.3 s is in bin 2.
        assert_eq!(gaps.values[2], Some(300.0));
    }

    #[test]
    fn counters_become_shares() {
        let shares = shares(&vec![(0.0, 1.0), (1.0, 2.0)], &vec![(0.0, 4.0), (1.0, 8.0)]);
        assert_eq!(shares, [(1.0, 25.0)]);
    }
}
