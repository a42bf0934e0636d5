//! Figures of made-up recordings: what a window holds, and what it says is missing.

use std::time::Duration;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn info(index: u32) -> GpuInfo {
    let told = GpuMetric::ALL.map(|metric| (metric.key(), Capability::Ok));
    GpuInfo { index, capabilities: BTreeMap::from(told), ..GpuInfo::default() }
}

/// A device at 10 W and rest outside of 1–3 s, at 100 W and work inside, with a counter.
fn device(index: u32) -> GpuTrack {
    let mut joules = 0.0;
    let readings = (0..=40_u32)
        .map(|i| {
            let busy = (10..=30).contains(&i);
            let mut reading = GpuReading { at: ms(u64::from(i) * 100), ..GpuReading::default() };
            let watts = if busy { 100.0 } else { 10.0 };
            reading.set(GpuMetric::Power, Some(watts));
            reading.set(GpuMetric::Energy, Some(joules));
            reading.set(GpuMetric::Util, Some(if busy { 97.0 } else { 0.0 }));
            reading.set(GpuMetric::MemoryUtil, Some(if busy { 60.0 } else { 0.0 }));
            reading.set(GpuMetric::SmClock, Some(if busy { 1900.0 } else { 210.0 }));
            reading.throttle = Some(Throttle(if i % 2 == 0 { 0x4 } else { 0 }));
            joules += 0.1 * if (10..30).contains(&i) { 100.0 } else { 10.0 };
            reading
        })
        .collect();
    GpuTrack { info: info(index), readings, processes: Vec::new() }
}

fn samples(gpus: Vec<GpuTrack>) -> Samples {
    let rows: Vec<SourceRow> =
        (0..=40).map(|i| SourceRow { at: ms(i * 100), took: ms(1), thread_cpu: ms(0) }).collect();
    let readings = rows
        .iter()
        .map(|row| HostReading {
            at: row.at,
            cpu_busy_s: Some(row.at.as_secs_f64()),
            cpu_total_s: Some(row.at.as_secs_f64() * 4.0),
            cpu_energy_j: Some(row.at.as_secs_f64() * 20.0),
            server: Some(TreeReading {
                cpu_s: Some(row.at.as_secs_f64() * 0.5),
                rss_bytes: Some(1_000),
                pss_bytes: (row.at == ms(2000)).then_some(900),
                ..TreeReading::default()
            }),
            ..HostReading::default()
        })
        .collect();
    Samples {
        period: ms(100),
        gpus,
        gpu_rows: rows.clone(),
        host: Track { rows, readings },
        ..Samples::default()
    }
}

fn process_of(owner: Owner) -> GpuProcess {
    GpuProcess { pid: 7, name: None, kind: Use::Compute, memory_bytes: Some(5), owner }
}

fn steady() -> Window {
    Window { from: ms(1050), to: ms(2950) }
}

fn load() -> Load {
    Load { output_tokens: Some(190.0), total_tokens: Some(380.0), ..Load::default() }
}

#[test]
fn idle_before_and_after_is_in_no_figure() {
    let figures = figures(&samples(vec![device(0)]), steady(), &load());
    let gpu = &figures.gpus[0];
    assert_eq!((gpu.power_w_mean, gpu.power_w_max), (Some(100.0), Some(100.0)));
    assert_eq!(gpu.sm_clock_mhz_min, Some(1900.0));
    assert!((gpu.energy_j.unwrap() - 190.0).abs() < 1e-9);
    assert_eq!(figures.energy_source, Some(EnergySource::Counter));
    assert!((figures.joules_per_output_token.unwrap() - 1.0).abs() < 1e-9);
    assert!((figures.joules_per_total_token.unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(figures.sources["gpu"].samples, 19);
    assert_eq!(figures.sources["gpu"].coverage, 1.0);
}

#[test]
fn energy_above_idle_takes_the_idle_power_from_the_same_counter() {
    let idle = Some(Window { from: ms(0), to: ms(1000) });
    let figures = figures(&samples(vec![device(0)]), steady(), &Load { idle, ..load() });
    let above = figures.joules_per_output_token_above_idle.unwrap();
    assert!((above - (190.0 - 19.0) / 190.0).abs() < 1e-9, "{above}");
}

/// A driver takes a while to load, so the first reading comes after the sampler's start.
#[test]
fn the_idle_span_begins_with_the_sources_first_reading() {
    let idle = Some(Window { from: ms(0), to: ms(1100) });
    let load = Load { idle, ..load() };
    let read_from = |mut samples: Samples, from: u64| {
        samples.gpus.iter_mut().for_each(|gpu| gpu.readings.retain(|row| row.at >= ms(from)));
        samples.host.readings.retain(|row| row.at >= ms(from));
        figures(&samples, steady(), &load)
    };
    // Nine tenths of a second at 10 W, one at 100 W.
    let counter = read_from(samples(vec![device(0)]), 100).joules_per_output_token_above_idle;
    assert!((counter.unwrap() - (190.0 - 19.0 * 1.9) / 190.0).abs() < 1e-9, "{counter:?}");
    let rapl = read_from(samples(Vec::new()), 100).joules_per_output_token_above_idle;
    assert!(rapl.unwrap().abs() < 1e-9, "20 W at rest and under load: {rapl:?}");
    let short = read_from(samples(vec![device(0)]), 200);
    assert_eq!(short.joules_per_output_token_above_idle, None);
    let why = &short.reasons["joules_per_output_token_above_idle"];
    assert_eq!(why, "GPU 0: 900.0ms of readings at rest before the level, 1s needed");
}

#[test]
fn without_a_counter_power_is_integrated_and_says_so() {
    let mut gpu = device(0);
    gpu.readings.iter_mut().for_each(|reading| reading.set(GpuMetric::Energy, None));
    let figures = figures(&samples(vec![gpu]), steady(), &load());
    assert_eq!(figures.energy_source, Some(EnergySource::IntegratedPower));
    assert!((figures.energy_j.unwrap() - 190.0).abs() < 1e-9);
    assert!(figures.reasons["gpus.0.energy_j"].contains("integrated"));
}

#[test]
fn a_counter_that_was_reset_is_not_believed() {
    let mut gpu = device(0);
    for reading in gpu.readings.iter_mut().filter(|reading| reading.at >= ms(2000)) {
        let after = reading.get(GpuMetric::Energy).map(|joules| joules - 100.0);
        reading.set(GpuMetric::Energy, after);
    }
    let figures = figures(&samples(vec![gpu]), steady(), &load());
    assert_eq!(figures.gpus[0].energy_source, Some(EnergySource::IntegratedPower));
    assert!(figures.reasons["gpus.0.energy_j"].contains("went back"));
}

#[test]
fn a_device_lost_in_the_window_has_no_energy_and_says_what_its_figures_stand_for() {
    let mut gpu = device(0);
    for reading in gpu.readings.iter_mut().filter(|reading| reading.at >= ms(2000)) {
        let error = Some("lost".to_owned());
        *reading = GpuReading { at: reading.at, error, ..GpuReading::default() };
    }
    let figures = figures(&samples(vec![gpu]), steady(), &load());
    assert_eq!(figures.gpus[0].power_w_mean, Some(100.0));
    assert_eq!(figures.gpus[0].energy_j, None);
    assert_eq!((figures.energy_j, figures.joules_per_output_token), (None, None));
    assert_eq!(
        figures.reasons["gpus.0.power_w_mean"],
        "10 of 19 readings failed (lost): of the others"
    );
    assert!(figures.reasons["joules_per_output_token"].contains("GPU 0"));
}

#[test]
fn a_memory_utilisation_that_stays_0_under_load_is_missing() {
    let mut gpu = device(0);
    gpu.readings.iter_mut().for_each(|reading| reading.set(GpuMetric::MemoryUtil, Some(0.0)));
    gpu.info.capabilities.insert(GpuMetric::MemoryUsed.key(), Capability::NotSupported);
    let figures = figures(&samples(vec![gpu]), steady(), &load());
    assert_eq!(figures.gpus[0].memory_util_pct_mean, None);
    assert!(figures.reasons["gpus.0.memory_util_pct_mean"].contains("reads 0"));
    assert_eq!(figures.memory_source, Some("meminfo"));
}

#[test]
fn only_devices_that_the_server_uses_count_towards_its_energy() {
    let mut ours = device(1);
    ours.processes = vec![(ms(0), vec![process_of(Owner::Server)])];
    let mut others = device(0);
    others.processes = vec![(ms(0), vec![process_of(Owner::Other)])];
    let figures = figures(&samples(vec![others, ours]), steady(), &load());
    assert_eq!(figures.gpus[0].used_by_server, Some(false));
    assert_eq!(figures.gpus[1].used_by_server, Some(true));
    assert_eq!(figures.gpus[0].foreign().count(), 1);
    assert!((figures.energy_j.unwrap() - 190.0).abs() < 1e-9);
}

#[test]
fn throttle_reasons_are_shares_of_samples() {
    let figures = figures(&samples(vec![device(0)]), steady(), &load());
    let share = figures.gpus[0].throttle_share["sw_power_cap"];
    assert!((share - 9.0 / 19.0).abs() < 1e-12, "{share}");
}

#[test]
fn without_a_device_the_cpu_package_gives_the_energy() {
    let mut samples = samples(Vec::new());
    samples.gpu_reason = Some("no library".to_owned());
    let figures = figures(&samples, steady(), &load());
    assert_eq!(figures.energy_source, Some(EnergySource::Rapl));
    assert!((figures.energy_j.unwrap() - 38.0).abs() < 1e-9);
    assert_eq!((figures.memory_source, figures.gpu_reason.as_deref()), (None, Some("no library")));
    assert_eq!(figures.reasons["memory_source"], "no GPU: no library");
    assert!((figures.host.unwrap().cpu_pct_mean.unwrap() - 25.0).abs() < 1e-9);
    let server = figures.server.unwrap();
    assert!((server.cpu_s.unwrap() - 0.95).abs() < 1e-9);
    assert!((server.cpu_s_per_output_token.unwrap() - 0.005).abs() < 1e-9);
    assert_eq!((server.rss_bytes_max, server.pss_bytes_max), (Some(1_000), Some(900)));
}

/// A counter that can be read is not said to be unreadable where its readings end too soon.
#[test]
fn energy_that_is_missing_says_what_the_counter_itself_says() {
    let mut samples = samples(Vec::new());
    samples.host.readings.truncate(20);
    let figures = figures(&samples, steady(), &load());
    assert_eq!(figures.joules_per_output_token, None);
    let uncovered = "the readings do not reach both ends of the window";
    assert_eq!(figures.reasons["host.cpu_energy_j"], uncovered);
    let why = &figures.reasons["joules_per_output_token"];
    assert_eq!(*why, format!("no GPU, and no energy of the CPU: {uncovered}"));
    assert_eq!(figures.reasons["server.cpu_s_per_output_token"], uncovered);
}

#[test]
fn a_wall_meter_stands_before_every_other_source() {
    let load = Load { wall_power_w: Some(85.0), ..load() };
    let figures = figures(&samples(vec![device(0)]), steady(), &load);
    assert_eq!(figures.energy_source, Some(EnergySource::WallPower));
    assert!((figures.energy_j.unwrap() - 85.0 * 1.9).abs() < 1e-9);
    assert!(figures.reasons.contains_key("joules_per_output_token_above_idle"));
}

#[test]
fn an_empty_recording_has_a_reason_for_everything() {
    let figures = figures(&Samples::default(), steady(), &Load::default());
    assert_eq!(figures.worst_source().map(|source| source.samples), Some(0));
    let keys = ["energy_j", "memory_source", "host.load_1m", "harness.rss_bytes_max", "server"];
    for key in keys.into_iter().chain(["host.cpu_pct_mean", "joules_per_output_token"]) {
        assert!(figures.reasons.contains_key(key), "{key}");
    }
}

/// V20: a counter in millijoules, tokens, and what is above idle.
#[test]
fn a_counters_difference_per_token_and_above_idle() {
    let at_ms = [0, 2_000, 32_000];
    let counter_mj = [123_445_789.0, 123_456_789.0, 123_996_789.0];
    let readings = at_ms.into_iter().zip(counter_mj).map(|(at, millijoules)| {
        let mut reading = GpuReading { at: ms(at), ..GpuReading::default() };
        reading.set(GpuMetric::Energy, Some(millijoules / 1e3));
        reading
    });
    let track = GpuTrack { readings: readings.collect(), ..device(0) };
    let load = Load {
        output_tokens: Some(512.0),
        total_tokens: Some(1024.0),
        idle: Some(Window { from: ms(0), to: ms(2_000) }),
        ..Load::default()
    };
    let window = Window { from: ms(2_000), to: ms(32_000) };
    let figures = figures(&samples(vec![track]), window, &load);
    let close = |left: Option<f64>, right: f64| (left.unwrap() - right).abs() <= 1e-9 * right;
    assert!(close(figures.energy_j, 540.0));
    assert!(close(figures.joules_per_output_token, 1.054_687_5));
    assert!(close(figures.joules_per_total_token, 1.054_687_5 / 2.0));
    // 5.5 W at rest.
    assert!(close(figures.joules_per_output_token_above_idle, 0.732_421_875), "{figures:?}");
}

/// A device that somebody else uses, or nobody.
fn not_the_servers(index: u32) -> GpuTrack {
    GpuTrack { processes: vec![(ms(0), vec![process_of(Owner::Other)])], ..device(index) }
}

#[test]
fn a_server_on_the_cpu_is_not_charged_with_a_device_that_it_does_not_use() {
    let idle = Some(Window { from: ms(0), to: ms(1_000) });
    let on_cpu = figures(&samples(vec![not_the_servers(0)]), steady(), &Load { idle, ..load() });
    assert_eq!(on_cpu.energy_source, Some(EnergySource::Rapl));
    assert!((on_cpu.energy_j.unwrap() - 38.0).abs() < 1e-9);
    assert!(on_cpu.joules_per_output_token_above_idle.unwrap().abs() < 1e-9);

    let mut without_rapl = samples(vec![not_the_servers(0)]);
    without_rapl.host.readings.iter_mut().for_each(|row| row.cpu_energy_j = None);
    let nothing = figures(&without_rapl, steady(), &load());
    assert_eq!((nothing.energy_j, nothing.joules_per_output_token), (None, None));
    let why = &nothing.reasons["joules_per_output_token"];
    assert!(why.starts_with("the server uses no GPU, and no energy of the CPU"), "{why}");

    // Of a device that may be the server's and one that is not, the first counts.
    let perhaps = figures(&samples(vec![not_the_servers(0), device(1)]), steady(), &load());
    assert_eq!(perhaps.gpus[1].used_by_server, None);
    assert!((perhaps.energy_j.unwrap() - 190.0).abs() < 1e-9);
}

/// A virtual GPU, or a virtual machine, may show a counter that nobody counts.
#[test]
fn a_counter_that_stands_still_is_not_believed() {
    let mut gpu = device(0);
    gpu.readings.iter_mut().for_each(|reading| reading.set(GpuMetric::Energy, Some(7.0)));
    let load = Load { idle: Some(Window { from: ms(0), to: ms(1_000) }), ..load() };
    let by_power = figures(&samples(vec![gpu.clone()]), steady(), &load);
    assert_eq!(by_power.energy_source, Some(EnergySource::IntegratedPower));
    assert!(by_power.reasons["gpus.0.energy_j"].contains("did not move"));
    let above = by_power.joules_per_output_token_above_idle.unwrap();
    assert!(above < by_power.joules_per_output_token.unwrap(), "{above}: 10 W at rest are known");

    gpu.readings.iter_mut().for_each(|reading| reading.set(GpuMetric::Power, None));
    let nothing = figures(&samples(vec![gpu]), steady(), &load);
    assert_eq!((nothing.gpus[0].energy_j, nothing.energy_j), (None, None));

    let mut rapl = samples(Vec::new());
    rapl.host.readings.iter_mut().for_each(|row| row.cpu_energy_j = Some(0.0));
    let nothing = figures(&rapl, steady(), &load);
    assert_eq!((nothing.host.unwrap().cpu_energy_j, nothing.energy_j), (None, None));
    assert!(nothing.reasons["host.cpu_energy_j"].contains("did not move"));
}

#[test]
fn a_window_without_length_has_no_energy() {
    let at = Window { from: ms(2_000), to: ms(2_000) };
    for wall_power_w in [None, Some(85.0)] {
        let load = Load { wall_power_w, ..load() };
        let figures = figures(&samples(vec![device(0)]), at, &load);
        assert_eq!((figures.energy_j, figures.gpus[0].energy_j), (None, None));
        assert_eq!(figures.host.unwrap().cpu_energy_j, None);
        assert_eq!(figures.joules_per_output_token, None);
        assert_eq!(figures.reasons["energy_j"], "the window has no length");
    }
}

#[test]
fn power_at_an_instant_is_integrated_before_its_average_over_a_second() {
    let mut gpu = device(0);
    for reading in &mut gpu.readings {
        reading.set(GpuMetric::Energy, None);
        reading.set(GpuMetric::PowerInstant, Some(50.0));
    }
    let instant = figures(&samples(vec![gpu.clone()]), steady(), &load());
    assert!((instant.energy_j.unwrap() - 95.0).abs() < 1e-9);
    assert!(!instant.reasons["gpus.0.energy_j"].contains("average"));

    gpu.readings.iter_mut().for_each(|reading| reading.set(GpuMetric::PowerInstant, None));
    let average = figures(&samples(vec![gpu]), steady(), &load());
    assert!((average.energy_j.unwrap() - 190.0).abs() < 1e-9);
    let why = &average.reasons["gpus.0.energy_j"];
    assert!(why.contains("power, an average over a second, was integrated instead"), "{why}");
}

/// What this machine takes says nothing of a server elsewhere; a wall meter's figure is stated, not
/// measured here.
#[test]
fn a_server_elsewhere_has_no_energy_of_this_machine_and_no_flags_of_its_devices() {
    let elsewhere = Load { place: ServerPlace::Elsewhere, ..load() };
    for gpus in [vec![device(0)], Vec::new()] {
        let figures = figures(&samples(gpus), steady(), &elsewhere);
        assert_eq!((figures.energy_j, figures.energy_source), (None, None));
        assert_eq!(figures.joules_per_output_token, None);
        for key in ["energy_j", "joules_per_total_token", "joules_per_output_token_above_idle"] {
            assert_eq!(figures.reasons[key], "the server is elsewhere", "{key}");
        }
        assert_eq!(figures.gpu_facts(), []);
        assert!(figures.gpus.iter().all(|gpu| gpu.used_by_server == Some(false)));
        assert!(figures.host.unwrap().cpu_energy_j.is_some(), "the machine's own is told");
    }
    let metered = Load { wall_power_w: Some(85.0), ..elsewhere };
    let figures = figures(&samples(Vec::new()), steady(), &metered);
    assert_eq!(figures.energy_source, Some(EnergySource::WallPower));
}

/// An Arm board: no RAPL, and one sensor at 30 W.
fn with_sensor(gpus: Vec<GpuTrack>) -> Samples {
    let mut samples = samples(gpus);
    for row in &mut samples.host.readings {
        row.cpu_energy_j = None;
        row.hwmon_energy_j = Some(row.at.as_secs_f64() * 30.0);
    }
    let named = "by the sensor ina VDD_IN alone".to_owned();
    samples.host_reasons.insert("host.hwmon_energy_j".to_owned(), named);
    samples
}

#[test]
fn without_rapl_a_hardware_monitor_gives_the_energy_and_is_named() {
    let load = Load { idle: Some(Window { from: ms(0), to: ms(1_000) }), ..load() };
    let board = figures(&with_sensor(Vec::new()), steady(), &load);
    assert_eq!(board.energy_source, Some(EnergySource::Hwmon));
    assert!((board.energy_j.unwrap() - 57.0).abs() < 1e-9);
    assert!(board.joules_per_output_token_above_idle.unwrap().abs() < 1e-9);
    for key in ["energy_j", "host.hwmon_energy_j"] {
        assert_eq!(board.reasons[key], "by the sensor ina VDD_IN alone", "{key}");
    }

    // A Jetson's GPU is listed and tells nothing; one that was lost tells something else.
    let mut jetson = device(0);
    jetson
        .readings
        .iter_mut()
        .for_each(|row| *row = GpuReading { at: row.at, ..Default::default() });
    let lost = figures(&with_sensor(vec![jetson.clone()]), steady(), &load);
    assert_eq!(lost.energy_source, None);
    let silent = |capability: &mut Capability| *capability = Capability::NotSupported;
    jetson.info.capabilities.values_mut().for_each(silent);
    let jetson = figures(&with_sensor(vec![jetson]), steady(), &load);
    assert_eq!(jetson.energy_source, Some(EnergySource::Hwmon));

    let mut still = with_sensor(Vec::new());
    still.host.readings.iter_mut().for_each(|row| row.hwmon_energy_j = Some(0.0));
    let still = figures(&still, steady(), &load);
    assert_eq!((still.energy_j, still.host.unwrap().hwmon_energy_j), (None, None));
    assert!(still.reasons["host.hwmon_energy_j"].contains("did not move"));
}
