//! What the sampler costs: its threads' CPU time as a share of one core, and how well it kept time.
//!
//! It samples this very process as if it were the server, and the devices that NVML finds
//! (`SPARK_NVML_LIB` names another library), and prints a line for each source.
//!
//! ```text
//! cargo run --release --no-default-features --example sampler_cost -- [seconds] [period in ms]
//! ```

use std::time::{Duration, Instant};

use spark::bench::telemetry::{Sampler, SamplerConfig, ServerProcesses, WindowFacts};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let period_ms: u64 = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let sampler = Sampler::start(SamplerConfig {
        period: Duration::from_millis(period_ms),
        server: Some(ServerProcesses { root: std::process::id(), group: None }),
        ..SamplerConfig::default()
    })?;
    // Opening the sources is no part of what sampling costs.
    if let Err(why) = sampler.devices(Duration::from_secs(15)) {
        println!("gpu: none: {why}");
    }
    sampler.wait_for_host(2, Duration::from_secs(15));
    let from = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    let to = Instant::now();
    let recording = sampler.stop();
    for (name, source) in &recording.hardware(&WindowFacts::new(from, to)).sources {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
        println!(
            "{name}: {} samples, {} % of a core, period {} ms (largest {}), a reading {} ms at most",
            source.samples,
            figure(source.cpu_share.map(|share| share * 100.0)),
            figure(source.period_ms_p50),
            figure(source.period_ms_max),
            figure(source.read_ms_max),
        );
    }
    Ok(())
}
