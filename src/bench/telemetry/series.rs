//! The time series as CSV: every reading, for plots and for whoever doubts a figure.

use std::time::Duration;

use crate::measure::hardware::{
    GpuMetric, GpuReading, GpuTrack, HostReading, Samples, TreeReading,
};

/// A column that each reading of a kind fills.
type Column<T> = (&'static str, fn(&T) -> Option<f64>);

const HOST: [Column<HostReading>; 18] = [
    ("host.cpu_busy_s", |r| r.cpu_busy_s),
    ("host.cpu_total_s", |r| r.cpu_total_s),
    ("host.load_1m", |r| r.load_1m),
    ("host.mem_free_bytes", |r| r.mem_free_bytes.map(float)),
    ("host.mem_cached_bytes", |r| r.mem_cached_bytes.map(float)),
    ("host.mem_available_bytes", |r| r.mem_available_bytes.map(float)),
    ("host.swap_used_bytes", |r| r.swap_used_bytes.map(float)),
    ("host.cpu_energy_j", |r| r.cpu_energy_j),
    ("host.hwmon_energy_j", |r| r.hwmon_energy_j),
    ("server.cpu_s", |r| server(r)?.cpu_s),
    ("server.rss_bytes", |r| server(r)?.rss_bytes.map(float)),
    ("server.pss_bytes", |r| server(r)?.pss_bytes.map(float)),
    ("server.major_faults", |r| server(r)?.major_faults.map(float)),
    ("server.minor_faults", |r| server(r)?.minor_faults.map(float)),
    ("server.processes", |r| Some(f64::from(server(r)?.processes))),
    ("harness.cpu_s", |r| r.harness.cpu_s),
    ("harness.rss_bytes", |r| r.harness.rss_bytes.map(float)),
    ("harness.minor_faults", |r| r.harness.minor_faults.map(float)),
];

fn server(reading: &HostReading) -> Option<&TreeReading> {
    reading.server.as_ref()
}

/// Counts of bytes and faults stay exact below 2⁵³.
fn float(count: u64) -> f64 {
    count as f64
}

/// One row a reading, in order of time; `t_s` is seconds since `zero`, negative before it.
pub(super) fn csv(samples: &Samples, zero: Duration) -> String {
    let mut header = vec!["t_s".to_owned(), "source".to_owned()];
    for track in &samples.gpus {
        let name = |key| format!("gpus.{}.{key}", track.info.index);
        header.extend(GpuMetric::ALL.map(|metric| name(metric.key())));
        header.push(name("throttle"));
    }
    header.extend(HOST.map(|(name, _)| name.to_owned()));
    let gpu_columns = samples.gpus.len() * (GpuMetric::ALL.len() + 1);

    let mut rows: Vec<(Duration, Vec<String>)> = Vec::new();
    for (place, row) in samples.gpu_rows.iter().enumerate() {
        let mut cells = vec!["gpu".to_owned()];
        for track in &samples.gpus {
            cells.extend(gpu_cells(track, place));
        }
        cells.extend(HOST.map(|_| String::new()));
        rows.push((row.at, cells));
    }
    for reading in &samples.host.readings {
        let mut cells = vec!["host".to_owned()];
        cells.extend(std::iter::repeat_n(String::new(), gpu_columns));
        cells.extend(HOST.map(|(_, value)| cell(value(reading))));
        rows.push((reading.at, cells));
    }
    rows.sort_by_key(|(at, _)| *at);

    // Numbers and our own column names: no cell needs quotes.
    let mut out = header.join(",");
    out.push_str("\r\n");
    for (at, cells) in rows {
        out.push_str(&format!("{:.6},", at.as_secs_f64() - zero.as_secs_f64()));
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    out
}

fn gpu_cells(track: &GpuTrack, place: usize) -> Vec<String> {
    let empty = GpuReading::default();
    let reading = track.readings.get(place).unwrap_or(&empty);
    let mut cells = GpuMetric::ALL.map(|metric| cell(reading.get(metric))).to_vec();
    let names: Vec<&str> = reading.throttle.into_iter().flat_map(|t| t.names()).collect();
    cells.push(names.join(" "));
    cells
}

fn cell(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::hardware::{GpuInfo, SourceRow, Throttle, Track};

    #[test]
    fn rows_stand_in_order_of_time_and_what_was_not_told_is_empty() {
        let ms = Duration::from_millis;
        let row = |at| SourceRow { at: ms(at), took: ms(1), thread_cpu: ms(0) };
        let mut reading = GpuReading { at: ms(1100), ..GpuReading::default() };
        reading.set(GpuMetric::Power, Some(41.5));
        reading.throttle = Some(Throttle(0x44));
        let samples = Samples {
            gpus: vec![GpuTrack {
                info: GpuInfo::default(),
                readings: vec![reading],
                processes: Vec::new(),
            }],
            gpu_rows: vec![row(1100)],
            host: Track {
                rows: vec![row(900)],
                readings: vec![HostReading {
                    at: ms(900),
                    mem_available_bytes: Some(17_000_000_000),
                    ..HostReading::default()
                }],
            },
            ..Samples::default()
        };
        let text = csv(&samples, ms(1000));
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        let cell = |record: usize, name: &str| {
            let place = header.iter().position(|column| column == name).unwrap();
            records[record].get(place).unwrap().to_owned()
        };
        assert_eq!((cell(0, "t_s"), cell(0, "source")), ("-0.100000".into(), "host".into()));
        assert_eq!(cell(0, "host.mem_available_bytes"), "17000000000");
        assert_eq!((cell(0, "gpus.0.power_w"), cell(0, "server.cpu_s")), ("".into(), "".into()));
        assert_eq!((cell(1, "t_s"), cell(1, "gpus.0.power_w")), ("0.100000".into(), "41.5".into()));
        assert_eq!(cell(1, "gpus.0.throttle"), "sw_power_cap hw_thermal_slowdown");
    }
}
