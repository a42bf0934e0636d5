//! The sampler against a stub of NVIDIA's library: what a results file holds for each kind of
//! device, and why the rest is missing.

use std::time::{Duration, Instant};

use spark::bench::client::{BodyTemplate, Endpoint};
use spark::bench::load::LevelSpec;
use spark::bench::telemetry::{
    NvmlLibrary, Recording, Sampler, SamplerConfig, ServerProcesses, WindowFacts, gpu_facts,
    memory_in_use,
};
use spark::measure::flags::{Outside, Severity, judge};
use spark::measure::level::{EndedBy, LevelFacts, StartMode, summarise};
use spark::results::record::Hardware;

use crate::support::nulls::without_reason;
use crate::support::nvml_stub::NvmlStub;
use crate::support::onlooker::Onlooker;
use crate::support::scripted::{ScriptedServer, Step, good_answer};

/// No reading takes as long; it ends a test that would hang.
const LONG: Duration = Duration::from_secs(60);

/// A sampler that takes this process and all below it for the server.
fn sampler(stub: &NvmlStub) -> Sampler {
    sampler_of(stub, std::process::id())
}

fn sampler_of(stub: &NvmlStub, server: u32) -> Sampler {
    let config = SamplerConfig {
        period: Duration::from_millis(5),
        server: Some(ServerProcesses { root: server, group: None }),
        nvml: NvmlLibrary::File(stub.path()),
        ..SamplerConfig::default()
    };
    Sampler::start(config).unwrap()
}

/// Waits until `more` readings of the devices have come that began after this call.
fn gpu_readings(sampler: &Sampler, more: usize) {
    let now = sampler.snapshot().samples().gpu_rows.len() + 1;
    assert!(sampler.wait_for_gpu(now + more, LONG), "the devices are not read any more");
}

/// Waits for readings of the devices with a reading of the host among them; says which was last.
fn readings_of_both(sampler: &Sampler, more: usize) -> usize {
    gpu_readings(sampler, 1);
    assert!(sampler.wait_for_next_host_reading(LONG), "the host is not read any more");
    gpu_readings(sampler, more);
    sampler.snapshot().samples().gpu_rows.len() - 1
}

/// The window from one reading of device 0 to another, as instants.
fn between(recording: &Recording, from: usize, to: usize) -> (Instant, Instant) {
    let readings = &recording.samples().gpus[0].readings;
    (recording.epoch() + readings[from].at, recording.epoch() + readings[to].at)
}

/// The hardware of the readings `from..=to` of device 0, with 10 output tokens and 40 in all.
fn hardware(recording: &Recording, from: usize, to: usize) -> Hardware {
    let (from, to) = between(recording, from, to);
    let mut facts = WindowFacts::new(from, to);
    facts.output_tokens = Some(10.0);
    facts.total_tokens = Some(40.0);
    explained(recording.hardware(&facts))
}

/// The same, after a look at its nulls: each has to have a reason.
fn explained(hardware: Hardware) -> Hardware {
    let nulls = without_reason(&serde_json::to_value(&hardware).unwrap());
    assert_eq!(nulls, [""; 0], "{hardware:?}");
    hardware
}

const IDLE: &str = "util 0
    power 10000
    sm_clock 210
    sm_clock_max 2000
    memory_total 16000000000
    throttle 1";

const BUSY: &str = "util 97
    memory_util 60
    sm_clock 1900
    sm_clock_max 2000
    memory_clock 2600
    power 100000
    power_instant 101000
    temp 65
    memory_used 4000000000
    memory_total 16000000000
    throttle 4";

#[test]
fn a_discrete_gpu_tells_everything_and_idle_is_in_no_figure() {
    let stub = NvmlStub::new(IDLE);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 3);
    stub.set(BUSY);
    gpu_readings(&sampler, 1);
    let from = sampler.snapshot().samples().gpu_rows.len() - 1;
    let to = readings_of_both(&sampler, 10);
    stub.set(IDLE);
    gpu_readings(&sampler, 3);
    let recording = sampler.stop();
    let hardware = hardware(&recording, from, to);
    let gpu = &hardware.gpus[0];

    assert_eq!((gpu.power_w_mean, gpu.power_w_max), (Some(100.0), Some(100.0)));
    assert_eq!((gpu.util_pct_mean, gpu.memory_util_pct_mean), (Some(97.0), Some(60.0)));
    assert_eq!((gpu.sm_clock_mhz_mean, gpu.sm_clock_mhz_min), (Some(1900.0), Some(1900.0)));
    assert_eq!((gpu.sm_clock_mhz_limit, gpu.memory_clock_mhz_mean), (Some(2000.0), Some(2600.0)));
    assert_eq!((gpu.temp_c_max, gpu.memory_used_bytes_max), (Some(65.0), Some(4_000_000_000)));
    assert_eq!(gpu.throttle_share["sw_power_cap"], 1.0);
    assert_eq!(gpu.throttle_share.len(), 1);
    assert_eq!(gpu.name.as_deref(), Some("Stub GPU"));

    // The stub's counter grows by one joule with each reading.
    let joules = (to - from) as f64;
    assert!((gpu.energy_j.unwrap() - joules).abs() < 1e-9);
    assert!((hardware.joules_per_output_token.unwrap() - joules / 10.0).abs() < 1e-9);
    assert!((hardware.joules_per_total_token.unwrap() - joules / 40.0).abs() < 1e-9);
    assert_eq!(hardware.energy_source.as_deref(), Some("counter"));
    assert_eq!(hardware.memory_source.as_deref(), Some("nvml"));
    let of_gpu = hardware.capabilities.iter().filter(|(path, _)| path.starts_with("gpus."));
    assert!(of_gpu.clone().count() > 9 && of_gpu.clone().all(|(_, word)| word == "ok"));
    for metric in ["host.cpu_pct", "host.mem_available_bytes", "harness.cpu_s"] {
        assert_eq!(hardware.capabilities[metric], "ok", "{metric}");
    }
    if std::path::Path::new("/proc/self/smaps_rollup").exists() {
        assert_eq!(hardware.capabilities["server.pss_bytes"], "ok");
    }
    let of_cpu = &hardware.capabilities["host.cpu_energy_j"];
    let why = hardware.reasons.get("host.cpu_energy_j");
    assert_eq!(of_cpu == "ok", why.is_none(), "{of_cpu}, {why:?}");
    let of_gpu: Vec<_> = hardware.reasons.keys().filter(|key| key.starts_with("gpus")).collect();
    assert_eq!(of_gpu, ["gpus.0.used_by_server"], "the stub shows no process");
    assert!(hardware.server.unwrap().rss_bytes_max.unwrap() > 0);
}

#[test]
fn the_driver_is_called_on_the_samplers_own_thread_only() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 2);
    drop(sampler.stop());
    assert_eq!(stub.threads().into_iter().collect::<Vec<_>>(), ["sampler-gpu"]);
}

#[test]
fn gb10_has_no_memory_figure_and_says_where_memory_is_from() {
    let state = format!(
        "{BUSY}\nname NVIDIA GB10\nmemory_rc 3\nmemory_clock_rc 3\nmemory_util 0\npower_limit_rc 3"
    );
    let stub = NvmlStub::new(&state);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 1);
    let last = readings_of_both(&sampler, 3);
    let recording = sampler.stop();
    let hardware = hardware(&recording, 1, last);
    let gpu = &hardware.gpus[0];

    assert_eq!((gpu.memory_used_bytes_max, gpu.memory_total_bytes), (None, None));
    assert_eq!((gpu.memory_clock_mhz_mean, gpu.memory_util_pct_mean), (None, None));
    assert_eq!(hardware.reasons["gpus.0.memory_used_bytes_max"], "not_supported");
    assert_eq!(hardware.reasons["gpus.0.memory_clock_mhz_mean"], "not_supported");
    assert!(hardware.reasons["gpus.0.memory_util_pct_mean"].contains("reads 0"));
    assert_eq!(hardware.capabilities["gpus.0.memory_used_bytes"], "not_supported");
    assert_eq!(hardware.capabilities["gpus.0.power_w"], "ok");
    assert_eq!(hardware.memory_source.as_deref(), Some("meminfo"));
    assert!(hardware.host.unwrap().mem_available_bytes_min.unwrap() > 0);
    assert!(hardware.host.unwrap().mem_used_bytes_max.unwrap() > 0);
    assert_eq!(gpu.power_w_mean, Some(100.0));
    assert_eq!(hardware.energy_source.as_deref(), Some("counter"));
    assert_eq!(recording.driver().devices[0].power_limit_w, None);
}

#[test]
fn a_jetson_initialises_and_tells_nothing_which_is_not_zero() {
    let stub = NvmlStub::new("all_rc 3\nname Orin");
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 5);
    let recording = sampler.stop();
    let hardware = hardware(&recording, 1, 5);
    let gpu = &hardware.gpus[0];

    assert_eq!(gpu.name.as_deref(), Some("Orin"));
    let figures = [
        gpu.util_pct_mean,
        gpu.util_pct_max,
        gpu.memory_util_pct_mean,
        gpu.power_w_mean,
        gpu.power_w_max,
        gpu.sm_clock_mhz_mean,
        gpu.sm_clock_mhz_min,
        gpu.sm_clock_mhz_limit,
        gpu.memory_clock_mhz_mean,
        gpu.temp_c_max,
        gpu.energy_j,
    ];
    assert_eq!(figures, [None; 11]);
    assert!(gpu.throttle_share.is_empty() && gpu.processes.is_empty());
    assert_eq!(gpu.used_by_server, None);
    let identity = ["name", "uuid", "compute_capability"].map(|key| format!("gpus.0.{key}"));
    for (path, word) in hardware.capabilities.iter().filter(|(path, _)| path.starts_with("gpus.")) {
        assert_eq!(word, if identity.contains(path) { "ok" } else { "not_supported" }, "{path}");
    }
    for key in [
        "sm_clock_mhz_limit",
        "memory_total_bytes",
        "util_pct_mean",
        "power_w_mean",
        "temp_c_max",
        "throttle_share",
        "processes",
    ] {
        assert_eq!(hardware.reasons[&format!("gpus.0.{key}")], "not_supported", "{key}");
    }
    assert_eq!((hardware.energy_j, hardware.joules_per_output_token), (None, None));
    assert!(hardware.reasons["joules_per_output_token"].contains("GPU 0"));
    assert_eq!(hardware.memory_source.as_deref(), Some("meminfo"));
    // The window begins within the first of its five readings.
    assert_eq!(hardware.sources["gpu"].samples, 4);
}

#[test]
fn a_gpu_that_is_lost_in_mid_level_keeps_what_it_told_and_has_no_energy() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 5);
    stub.set("all_rc 15\nhandle_rc 15");
    gpu_readings(&sampler, 5);
    let recording = sampler.stop();
    let last = recording.samples().gpu_rows.len() - 1;
    let hardware = hardware(&recording, 1, last);
    let gpu = &hardware.gpus[0];

    assert_eq!(gpu.power_w_mean, Some(100.0));
    let why = &hardware.reasons["gpus.0.power_w_mean"];
    assert!(why.contains("readings failed") && why.contains("fell off the bus"), "{why}");
    assert_eq!((gpu.energy_j, hardware.joules_per_output_token), (None, None));
    assert!(hardware.reasons["gpus.0.energy_j"].contains("both ends"));
}

#[test]
fn a_counter_that_is_reset_is_replaced_by_integrated_power() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 5);
    stub.set(&format!("{BUSY}\nenergy_reset 1"));
    gpu_readings(&sampler, 5);
    let recording = sampler.stop();
    let last = recording.samples().gpu_rows.len() - 1;
    let hardware = hardware(&recording, 1, last);

    assert_eq!(hardware.energy_source.as_deref(), Some("integrated_power"));
    let (from, to) = between(&recording, 1, last);
    // Of the instant, not its average.
    let joules = 101.0 * (to - from).as_secs_f64();
    assert!((hardware.gpus[0].energy_j.unwrap() - joules).abs() < 1e-6 * joules);
    let why = &hardware.reasons["gpus.0.energy_j"];
    assert!(why.contains("went back") && why.contains("integrated"), "{why}");
}

#[test]
fn a_call_that_hangs_holds_up_nothing_but_its_own_thread() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 3);
    stub.set(&format!("{BUSY}\nhang power"));
    assert!(sampler.wait_until_gpu_is_being_read(LONG));
    let before = sampler.snapshot();
    let host = before.samples().host.rows.len();
    assert!(sampler.wait_for_host(host + 20, LONG), "the host is not sampled any more");
    let during = sampler.snapshot();
    let gained = during.samples().gpu_rows.len() - before.samples().gpu_rows.len();
    assert!(gained <= 1, "{gained} readings came out of a call that hangs");

    stub.set(BUSY);
    gpu_readings(&sampler, 3);
    let recording = sampler.stop();
    let last = recording.samples().gpu_rows.len() - 1;
    let hardware = hardware(&recording, 1, last);
    let (gpu, host) = (&hardware.sources["gpu"], &hardware.sources["host"]);
    assert!(gpu.period_ms_max > host.period_ms_p50, "{gpu:?} {host:?}");
    assert!(gpu.coverage < Some(1.0), "{gpu:?}");
    assert!(hardware.coverage <= gpu.coverage && hardware.coverage <= host.coverage);
}

#[test]
fn a_call_that_never_returns_is_left_behind_and_named() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 3);
    stub.set(&format!("{BUSY}\nhang temp"));
    assert!(sampler.wait_until_gpu_is_being_read(LONG));
    gpu_is_stuck(&sampler);
    let recording = sampler.stop();
    let hardware = hardware(&recording, 1, 2);
    assert!(hardware.reasons["gpus"].contains("hangs since"), "{:?}", hardware.reasons);
    assert_eq!(hardware.gpus[0].power_w_mean, Some(100.0));
    // The call returns when it may, so that no thread outlives the stub's folder for long.
    stub.set(BUSY);
}

#[test]
fn a_call_that_hangs_through_a_whole_level_delays_no_request() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 3);
    stub.set(&format!("{BUSY}\nhang power"));
    assert!(sampler.wait_until_gpu_is_being_read(LONG));
    gpu_is_stuck(&sampler);
    let before = sampler.snapshot().samples().gpu_rows.len();

    let server = ScriptedServer::start(vec![vec![Step::Send(good_answer(4))]]);
    let endpoint = Endpoint::new(&server.url(), BodyTemplate::new("m", 4)).unwrap();
    let level = crate::level::run(&endpoint, &LevelSpec::closed(4, 100));

    // The call began before the first request was sent, and returns only now, after the last answer:
    // had anything waited for it, no level would have ended.
    assert_eq!(sampler.snapshot().samples().gpu_rows.len(), before);
    assert_eq!(level.ended_by, EndedBy::NOk);
    assert!(level.traces.iter().all(|trace| trace.outcome.is_ok()));
    stub.set(BUSY);
    gpu_readings(&sampler, 1);
    drop(sampler.stop());
}

/// Waits until the host has been read so often while the same reading of the devices was under way
/// that it can only hang.
fn gpu_is_stuck(sampler: &Sampler) {
    loop {
        let before = sampler.snapshot().samples().gpu_rows.len();
        let host = sampler.snapshot().samples().host.rows.len();
        assert!(sampler.wait_for_host(host + 20, LONG));
        if sampler.snapshot().samples().gpu_rows.len() == before {
            return;
        }
    }
}

#[test]
fn without_a_library_everything_else_works_and_the_gpu_block_says_why() {
    let config = SamplerConfig {
        period: Duration::from_millis(5),
        nvml: NvmlLibrary::File("/nonexistent/libnvidia-ml.so".into()),
        ..SamplerConfig::default()
    };
    let sampler = Sampler::start(config).unwrap();
    assert!(sampler.wait_for_host(10, LONG));
    let recording = sampler.stop();
    let rows = &recording.samples().host.rows;
    let epoch = recording.epoch();
    let facts = WindowFacts::new(epoch + rows[1].at, epoch + rows[8].at);
    let hardware = explained(recording.hardware(&facts));
    assert!(hardware.gpus.is_empty());
    assert!(hardware.gpu_reason.unwrap().contains("/nonexistent/libnvidia-ml.so"));
    assert_eq!((hardware.memory_source, hardware.energy_source), (None, None));
    assert!(hardware.samples >= 7);
    assert!(hardware.host.unwrap().mem_available_bytes_min.unwrap() > 0);
    assert!(hardware.harness.unwrap().rss_bytes_max.unwrap() > 0);
    assert_eq!(hardware.server, None);
    assert!(hardware.reasons["server"].contains("not started here"));
}

#[test]
fn of_two_gpus_the_servers_own_counts_and_a_stranger_is_told_apart() {
    let (server, onlooker) = (Onlooker::start(), Onlooker::start());
    let (own, stranger) = (server.pid(), onlooker.pid());
    let hidden = u32::MAX - 7;
    let state = format!(
        "{BUSY}\ndevices 2\n0.procs {stranger}:5000\n1.procs {own}:7000,{hidden}\n1.power 50000"
    );
    let stub = NvmlStub::new(&state);
    let sampler = sampler_of(&stub, own);
    assert!(sampler.wait_for_host(1, LONG));
    gpu_readings(&sampler, 5);
    let recording = sampler.stop();
    let (from, to) = between(&recording, 1, 5);
    let figures = recording.figures(&WindowFacts::new(from, to));
    let foreign = |index: usize| figures.gpus[index].foreign().map(|p| p.pid).collect::<Vec<_>>();
    assert_eq!((foreign(0), foreign(1)), (vec![stranger], Vec::new()));
    let hardware = hardware(&recording, 1, 5);
    assert_eq!(hardware.gpus[0].used_by_server, Some(false));
    assert_eq!(hardware.gpus[1].used_by_server, Some(true));
    assert_eq!(hardware.energy_j, hardware.gpus[1].energy_j);
    assert_eq!(hardware.gpus[1].power_w_mean, Some(50.0));
    let ours: Vec<_> = hardware.gpus[1].processes.iter().map(|p| (p.pid, p.ours)).collect();
    assert_eq!(ours, [(own, true), (hidden, false)]);
    let held: Vec<_> = hardware.gpus[1].processes.iter().map(|p| p.memory_bytes).collect();
    assert_eq!(held, [Some(7000), None]);
    assert_eq!(hardware.gpus[1].processes[1].name, None);
    for key in ["memory_bytes", "name"] {
        assert!(hardware.reasons.contains_key(&format!("gpus.1.processes.1.{key}")), "{key}");
    }
}

/// A display server holds memory and computes nothing; a server may do both, and is one process.
#[test]
fn what_draws_is_listed_beside_what_computes() {
    let (server, onlooker) = (Onlooker::start(), Onlooker::start());
    let (own, stranger) = (server.pid(), onlooker.pid());
    let lists = format!("procs {own}:7000\ngraphics {own}:7500,{stranger}:40");
    let stub = NvmlStub::new(&format!("{BUSY}\n{lists}"));
    let sampler = sampler_of(&stub, own);
    assert!(sampler.wait_for_host(1, LONG));
    gpu_readings(&sampler, 5);
    let hardware = hardware(&sampler.stop(), 1, 5);
    let mut told: Vec<_> = hardware.gpus[0].processes.iter().collect();
    told.sort_by_key(|process| !process.ours);
    let kinds: Vec<_> = told.iter().map(|p| (p.pid, p.ours, p.kind.as_deref())).collect();
    let expected = [(own, true, Some("compute+graphics")), (stranger, false, Some("graphics"))];
    assert_eq!(kinds, expected);
    assert_eq!(told[0].memory_bytes, Some(7500));
    let name = std::fs::read_to_string(format!("/proc/{stranger}/comm")).unwrap();
    assert_eq!(told[1].name.as_deref(), Some(name.trim()));
}

#[test]
fn a_window_in_which_nothing_was_read_has_a_reason_for_each_null() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    readings_of_both(&sampler, 3);
    let recording = sampler.stop();
    let from = recording.epoch() + Duration::from_secs(1_000_000);
    let facts = WindowFacts::new(from, from + Duration::from_secs(1));
    let hardware = explained(recording.hardware(&facts));
    let gpu = &hardware.gpus[0];
    assert_eq!((hardware.samples, gpu.power_w_mean, gpu.memory_used_bytes_max), (0, None, None));
    assert_eq!((hardware.energy_j, hardware.memory_source), (None, None));
    assert!(hardware.reasons["host.mem_available_bytes_min"].contains("no sample"));
}

#[test]
fn the_facts_of_the_host_name_driver_and_devices() {
    let stub = NvmlStub::new("devices 2\n1.name Second");
    let facts = gpu_facts(&NvmlLibrary::File(stub.path())).unwrap();
    assert_eq!((facts.driver.as_deref(), facts.cuda.as_deref()), (Some("580.95.05"), Some("13.0")));
    assert_eq!(facts.devices.len(), 2);
    assert_eq!(facts.devices[1].name.as_deref(), Some("Second"));
    assert_eq!(facts.devices[0].compute_capability.as_deref(), Some("12.1"));
    assert_eq!(facts.devices[0].power_limit_w, Some(300.0));
}

#[test]
fn memory_in_use_is_the_devices_own_or_the_machines() {
    let discrete = NvmlStub::new("devices 2\nmemory_used 1000\n1.memory_used 500");
    let told = memory_in_use(&NvmlLibrary::File(discrete.path())).unwrap();
    assert_eq!((told.bytes, told.source), (1500, "nvml"));
    let unified = NvmlStub::new("memory_rc 3");
    assert_eq!(memory_in_use(&NvmlLibrary::File(unified.path())).unwrap().source, "meminfo");
    assert_eq!(memory_in_use(&NvmlLibrary::None).unwrap().source, "meminfo");
}

/// What the devices of a stub in this state do to the flags of this server's level.
fn flags_of(state: &str, server: &Onlooker) -> Vec<(String, Severity)> {
    let stub = NvmlStub::new(state);
    let sampler = sampler_of(&stub, server.pid());
    assert!(sampler.wait_for_host(1, LONG));
    gpu_readings(&sampler, 5);
    let recording = sampler.stop();
    let (from, to) = between(&recording, 1, 5);
    let figures = recording.figures(&WindowFacts::new(from, to));
    let outside = Outside {
        gpus: figures.gpu_facts(),
        measures_power: figures.measures_power(),
        ..Outside::default()
    };
    let level = LevelFacts {
        concurrency: 1,
        start_mode: StartMode::Simultaneous,
        ended_by: EndedBy::NOk,
        stutter: Duration::from_millis(200),
        single: None,
        slo: None,
    };
    let (flags, _) = judge(&summarise(&level, &[]), &[], &outside);
    let of_devices = ["low_clock", "throttled", "foreign_gpu_process"];
    let flags = flags.iter().filter(|flag| of_devices.contains(&flag.name.name()));
    flags.map(|flag| (flag.name.name().to_owned(), flag.severity)).collect()
}

#[test]
fn the_devices_state_raises_the_levels_flags() {
    let flagged = |name: &str| vec![(name.to_owned(), Severity::Flagged)];
    let (server, stranger) = (Onlooker::start(), Onlooker::start());
    let flags_of = |state: &str| flags_of(&format!("{BUSY}\n{state}"), &server);
    assert_eq!(flags_of(""), []);
    assert_eq!(flags_of("sm_clock 1100"), flagged("low_clock"));
    assert_eq!(flags_of("throttle 64"), flagged("throttled"));
    assert_eq!(flags_of(&format!("procs {}:5000", stranger.pid())), []);
    let both = format!("procs {}:5000,{}:1", stranger.pid(), server.pid());
    assert_eq!(flags_of(&both), flagged("foreign_gpu_process"));
    let game = format!("procs {}:1\ngraphics {}:5000", server.pid(), stranger.pid());
    assert_eq!(flags_of(&game), flagged("foreign_gpu_process"));
    let stuck = flags_of("name NVIDIA GB10\nsm_clock 850");
    assert_eq!(stuck, [("low_clock".to_owned(), Severity::Invalid)]);
}

#[test]
fn the_series_holds_each_reading_of_both_sources() {
    let stub = NvmlStub::new(BUSY);
    let sampler = sampler(&stub);
    gpu_readings(&sampler, 3);
    let recording = sampler.stop();
    let text = recording.series_csv(recording.epoch());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let sources: Vec<String> = reader.records().map(|row| row.unwrap()[1].to_owned()).collect();
    let count = |name: &str| sources.iter().filter(|source| *source == name).count();
    assert_eq!(count("gpu"), recording.samples().gpu_rows.len());
    assert_eq!(count("host"), recording.samples().host.rows.len());
    assert!(text.contains("gpus.0.power_w"));
}
