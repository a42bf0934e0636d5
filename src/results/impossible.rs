//! What no run can have measured. A file that says it was edited or damaged: none of its figures
//! is to be believed, and it is refused with the field.
//!
//! Only what cannot be is looked for, not what is unlikely: it costs a few comparisons a record.
//! Files of other harnesses may lack any field, and round the others.

use super::record::{Level, MetricStats, RequestRecord, ResultsFile, Summary};

/// What rounding may do to the order of two times, in seconds.
const ROUNDING_S: f64 = 1e-3;
/// No request and no level takes thirty years, in seconds.
const TIME_MAX_S: f64 = 1e9;

/// The first impossible thing about a request, in words.
pub(super) fn of_record(record: &RequestRecord) -> Result<(), String> {
    let measured = [
        ("start_s", Some(record.start_s)),
        ("ttft", record.ttft),
        ("ttft_answer", record.ttft_answer),
        ("last_token", record.last_token),
        ("e2e", record.e2e),
        ("tpot", record.tpot),
        ("max_gap", record.max_gap),
        ("dns_s", record.dns_s),
        ("connect_s", record.connect_s),
        ("tls_s", record.tls_s),
        ("written_s", record.written_s),
        ("headers_s", record.headers_s),
        ("rtt_s", record.rtt_s),
    ];
    measured.into_iter().try_for_each(|(name, time)| possible_time(name, time))?;
    // What a server says may be as large as it likes.
    let server = record.server.as_ref();
    let told = [
        ("decode_tps", record.decode_tps),
        ("retry_after_s", record.retry_after_s),
        ("server.queue_s", server.and_then(|server| server.queue_s)),
        ("server.prefill_s", server.and_then(|server| server.prefill_s)),
        ("server.decode_s", server.and_then(|server| server.decode_s)),
    ];
    told.into_iter().try_for_each(|(name, value)| not_negative(name, value))?;
    let in_their_order =
        [("ttft", record.ttft), ("last_token", record.last_token), ("e2e", record.e2e)];
    ascending(in_their_order, ROUNDING_S)?;
    let not_after_the_end = [
        ("ttft_answer", record.ttft_answer),
        ("max_gap", record.max_gap),
        ("headers_s", record.headers_s),
    ];
    not_after_the_end
        .into_iter()
        .try_for_each(|inner| ascending([inner, ("e2e", record.e2e)], ROUNDING_S))
}

/// The first impossible thing about what is said of each level, in words with its place. `ok` holds
/// the measured ok records of each level that were read; a level may hold fewer than it sums up.
pub(super) fn of_levels(file: &ResultsFile, ok: &[u64]) -> Result<(), String> {
    let levels = file.levels.iter().enumerate();
    levels.into_iter().try_for_each(|(at, level)| {
        let summary = &level.summary;
        of_summary(summary).map_err(|what| format!("levels[{at}].summary: {what}"))?;
        match ok.get(at) {
            Some(&ok) if ok > summary.n_ok => {
                let n_ok = summary.n_ok;
                Err(format!(
                    "levels[{at}].requests: {ok} with ok = true, and summary.n_ok is {n_ok}"
                ))
            }
            _ => Ok(()),
        }
    })
}

/// How many of these records the level's `n_ok` counts.
pub(super) fn counts_as_ok(record: &RequestRecord) -> bool {
    record.ok && record.phase != "warmup"
}

/// Both, for a file that lies in memory.
pub(super) fn of_file(file: &ResultsFile) -> Result<(), String> {
    let of_level = |(at, level): (usize, &Level)| {
        level.requests.iter().enumerate().try_for_each(|(position, record)| {
            let place = |what| format!("levels[{at}].requests[{position}]: {what}");
            of_record(record).map_err(place)
        })
    };
    file.levels.iter().enumerate().try_for_each(of_level)?;
    let ok = |level: &Level| level.requests.iter().filter(|r| counts_as_ok(r)).count() as u64;
    of_levels(file, &file.levels.iter().map(ok).collect::<Vec<_>>())
}

fn of_summary(summary: &Summary) -> Result<(), String> {
    let Summary { n, n_ok, n_err, .. } = *summary;
    if n_ok > n {
        return Err(format!("n_ok is {n_ok}, of n = {n} requests"));
    }
    if n_ok.checked_add(n_err) != Some(n) {
        return Err(format!("n_ok = {n_ok} and n_err = {n_err} do not make n = {n}"));
    }
    let classes = summary.errors.values().try_fold(0_u64, |sum, count| sum.checked_add(*count));
    if !summary.errors.is_empty() && classes != Some(n_err) {
        return Err(format!("errors do not make n_err = {n_err}"));
    }
    let (t0, t1) = (summary.steady_t0_s, summary.steady_t1_s);
    for (name, time) in [("wall_s", Some(summary.wall_s)), ("steady_t0_s", t0), ("steady_t1_s", t1)]
    {
        possible_time(name, time)?;
    }
    ascending([("steady_t0_s", t0), ("steady_t1_s", t1)], 0.0)?;
    let shares = [
        ("throughput_tps", summary.throughput_tps),
        ("steady_tps", summary.steady_tps),
        ("occupancy", summary.occupancy),
        ("stutter_share", summary.stutter_share),
    ];
    shares.into_iter().try_for_each(|(name, value)| not_negative(name, value))?;
    summary.metrics.0.iter().try_for_each(|(metric, stats)| of_metric(metric, stats))
}

fn of_metric(metric: &str, stats: &MetricStats) -> Result<(), String> {
    let in_order = [
        ("min", stats.min),
        ("p50", stats.p50),
        ("p90", stats.p90),
        ("p95", stats.p95),
        ("p99", stats.p99),
        ("max", stats.max),
    ];
    in_order.into_iter().chain([("mean", stats.mean)]).try_for_each(|(key, value)| {
        not_negative(key, value).map_err(|what| format!("{metric}_{what}"))
    })?;
    // Of a speed, some call p90 what nine in ten reach.
    if metric == "decode_tps" {
        return Ok(());
    }
    let named = in_order.map(|(key, value)| (format!("{metric}_{key}"), value));
    ascending(named.each_ref().map(|(name, value)| (name.as_str(), *value)), ROUNDING_S)
}

fn possible_time(name: &str, time: Option<f64>) -> Result<(), String> {
    not_negative(name, time)?;
    match time {
        Some(time) if time > TIME_MAX_S => {
            Err(format!("{name} is {time} s: nothing takes so long"))
        }
        _ => Ok(()),
    }
}

fn not_negative(name: &str, value: Option<f64>) -> Result<(), String> {
    match value {
        Some(value) if value.is_nan() || value < 0.0 => {
            Err(format!("{name} is {value}, which cannot be"))
        }
        _ => Ok(()),
    }
}

/// Those that there are, each at least as large as the one before it.
fn ascending<const N: usize>(values: [(&str, Option<f64>); N], slack: f64) -> Result<(), String> {
    let mut last: Option<(&str, f64)> = None;
    for (name, value) in values {
        let Some(value) = value else { continue };
        if let Some((before, least)) = last
            && value + slack < least
        {
            return Err(format!("{name} is {value}, less than {before}, which is {least}"));
        }
        last = Some((name, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::ServerTimesRecord;

    #[test]
    fn a_request_that_cannot_be_is_refused_with_its_field() {
        let good = RequestRecord {
            ttft: Some(0.5),
            last_token: Some(1.0),
            e2e: Some(1.0),
            ..RequestRecord::default()
        };
        assert_eq!(of_record(&good), Ok(()));
        assert_eq!(of_record(&RequestRecord::default()), Ok(()), "nothing said is nothing wrong");
        let rounded = RequestRecord { last_token: Some(1.0004), ..good.clone() };
        assert_eq!(of_record(&rounded), Ok(()));
        let server = |queue_s| ServerTimesRecord {
            queue_s: Some(queue_s),
            prefill_s: None,
            decode_s: None,
            source: String::new(),
        };
        for (record, expect) in [
            (RequestRecord { ttft: Some(-0.5), ..good.clone() }, "ttft is -0.5"),
            (RequestRecord { e2e: Some(0.9), ..good.clone() }, "e2e is 0.9, less than last_token"),
            (RequestRecord { ttft: Some(1.1), ..good.clone() }, "last_token is 1, less than ttft"),
            (RequestRecord { max_gap: Some(1.1), ..good.clone() }, "less than max_gap"),
            (RequestRecord { e2e: Some(1e300), ..good.clone() }, "e2e is 1"),
            (RequestRecord { start_s: f64::NAN, ..good.clone() }, "start_s is NaN"),
            (RequestRecord { server: Some(server(-1.0)), ..good.clone() }, "server.queue_s is -1"),
        ] {
            let what = of_record(&record).unwrap_err();
            assert!(what.contains(expect), "{what}");
        }
    }

    #[test]
    fn counts_and_percentiles_have_to_agree() {
        let good = Summary { n: 10, n_ok: 8, n_err: 2, ..Summary::default() };
        assert_eq!(of_summary(&good), Ok(()));
        let ttft = |p50, p90| {
            let stats = MetricStats { p50: Some(p50), p90: Some(p90), ..MetricStats::default() };
            let metrics = [("ttft".to_owned(), stats)].into();
            Summary { metrics: crate::results::record::MetricTable(metrics), ..good.clone() }
        };
        assert_eq!(of_summary(&ttft(0.1, 0.2)), Ok(()));
        for (summary, expect) in [
            (Summary { n_ok: 11, n_err: 0, ..good.clone() }, "n_ok is 11, of n = 10"),
            (Summary { n_err: 3, ..good.clone() }, "do not make n = 10"),
            (Summary { n_err: u64::MAX, ..good.clone() }, "do not make n = 10"),
            (Summary { errors: [("connect".into(), 3)].into(), ..good.clone() }, "n_err = 2"),
            (Summary { wall_s: -1.0, ..good.clone() }, "wall_s is -1"),
            (
                Summary { steady_t0_s: Some(5.0), steady_t1_s: Some(4.0), ..good.clone() },
                "steady_t1_s is 4, less than steady_t0_s",
            ),
            (ttft(0.2, 0.1), "ttft_p90 is 0.1, less than ttft_p50"),
            (ttft(-0.2, 0.1), "ttft_p50 is -0.2"),
        ] {
            let what = of_summary(&summary).unwrap_err();
            assert!(what.contains(expect), "{what}");
        }
    }
}
