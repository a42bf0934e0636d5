//! Why the figures of a results file may not be those of the machine, the weights or the load that
//! the prices are for.

use super::{Answer, device_power};
use crate::bench::config::CostConfig;
use crate::results::record::{Host, Meta, ServerMeta};

/// A warning each, in the order of their weight.
pub(super) fn doubts(config: &CostConfig, answer: &Answer<'_>) -> Vec<String> {
    let meta = &answer.run.file.meta;
    let of_level = [load(answer), power(config, answer), prompts(answer)];
    of_run(config, meta).into_iter().chain(of_level.into_iter().flatten()).collect()
}

/// Those that hold for the whole of a run.
pub(super) fn of_run(config: &CostConfig, meta: &Meta) -> Vec<String> {
    machine(config, meta).into_iter().chain(weights(config, meta)).collect()
}

/// Whether it was measured on this machine, as far as a file can tell.
fn machine(config: &CostConfig, meta: &Meta) -> Option<String> {
    let own = &config.own;
    if !ran_here(meta) {
        return Some(format!(
            "the server was at {}, and the file knows the client's machine only: whether that was \
             {} cannot be told",
            meta.base_url, own.name
        ));
    }
    let Some(host) = meta.host.as_ref().filter(|host| host.cpu.is_some() || !host.gpus.is_empty())
    else {
        return Some(format!(
            "the file does not say on which machine it was measured: whether that was {} cannot be \
             told",
            own.name
        ));
    };
    let measured = described(host);
    match &own.machine {
        None => Some(format!(
            "measured on {measured}; own.machine in the config would tell whether that is {}",
            own.name
        )),
        Some(part) if names(host).any(|name| contains(&name, part)) => None,
        Some(part) => Some(format!(
            "measured on {measured}, and own.machine says {part:?}: these are not {}'s figures",
            own.name
        )),
    }
}

/// Whether the server ran on the machine of the harness: it started it, or called it by a loopback
/// address.
pub(super) fn ran_here(meta: &Meta) -> bool {
    let started = meta.server.as_ref().is_some_and(|ServerMeta { engine, .. }| engine.is_some());
    let host = meta.base_url.split("://").nth(1).unwrap_or_default();
    let host = host.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    started || loopback || host == "localhost"
}

fn names(host: &Host) -> impl Iterator<Item = String> {
    let gpus = host.gpus.iter().filter_map(|gpu| gpu.name.clone());
    gpus.chain(host.cpu.clone())
}

fn described(host: &Host) -> String {
    let gpus: Vec<String> = host.gpus.iter().filter_map(|gpu| gpu.name.clone()).collect();
    let cpu = host.cpu.as_deref().unwrap_or("an unknown processor");
    let cores = host.cores_logical.map(|n| format!(", {n} threads")).unwrap_or_default();
    if gpus.is_empty() {
        format!("{cpu}{cores}, no GPU")
    } else {
        format!("{} ({cpu})", gpus.join(", "))
    }
}

fn contains(name: &str, part: &str) -> bool {
    name.to_lowercase().contains(&part.to_lowercase())
}

fn weights(config: &CostConfig, meta: &Meta) -> Option<String> {
    let measured = meta.base_model.as_deref().unwrap_or(&meta.model);
    match &config.base_model {
        None => Some(format!(
            "measured with {measured}; base_model in the config would tell whether the prices are \
             for these weights"
        )),
        Some(priced)
            if [measured, &meta.model].iter().any(|name| plain(name).contains(&plain(priced))) =>
        {
            None
        }
        Some(priced) => {
            Some(format!("measured with {measured}, and base_model says {priced}: other weights"))
        }
    }
}

/// Letters and digits: "meta-llama/Llama-3.1-8B-Instruct" is Llama 3.1 8B Instruct.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn load(answer: &Answer<'_>) -> Option<String> {
    let flags: Vec<&str> = answer.level.flags.iter().map(|flag| flag.name.as_str()).collect();
    let c = answer.level.summary.concurrency;
    (!flags.is_empty()).then(|| format!("the level at c = {c} is flagged: {}", flags.join(", ")))
}

/// A machine that drew more than the config says.
fn power(config: &CostConfig, answer: &Answer<'_>) -> Option<String> {
    let (said, measured) = (config.own.busy_w?, device_power(answer.level)?);
    (measured > said).then(|| {
        format!("the devices alone drew {measured:.0} W, over the config's busy_w of {said:.0} W")
    })
}

fn prompts(answer: &Answer<'_>) -> Option<String> {
    (answer.work.prompt <= 0.0).then(|| {
        "the file has no prompt tokens, so the API's price leaves the prompts out".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::HostGpu;

    const COSTS: &str = include_str!("../../../../configs/costs/spark-or-api.toml");

    fn meta(base_url: &str, gpu: Option<&str>) -> Meta {
        let gpus = gpu.map(|name| HostGpu { name: Some(name.into()), ..HostGpu::default() });
        let host = Host {
            cpu: Some("Cortex".into()),
            gpus: gpus.into_iter().collect(),
            ..Host::default()
        };
        Meta { base_url: base_url.into(), host: Some(host), ..Meta::default() }
    }

    #[test]
    fn another_machine_is_named() {
        let config: CostConfig = toml::from_str(COSTS).unwrap();
        let local = "http://127.0.0.1:8000/v1";
        assert_eq!(machine(&config, &meta(local, Some("NVIDIA GB10"))), None);
        let said = machine(&config, &meta(local, Some("NVIDIA H200"))).unwrap();
        assert!(said.contains("NVIDIA H200") && said.contains("not DGX Spark's"), "{said}");
        let said = machine(&config, &meta(local, None)).unwrap();
        assert!(said.contains("Cortex, no GPU"), "{said}");
        let said = machine(&config, &meta("https://api.example/v1", Some("NVIDIA GB10"))).unwrap();
        assert!(said.contains("https://api.example/v1"), "{said}");
        let said = machine(&config, &Meta { host: None, ..meta(local, None) }).unwrap();
        assert!(said.contains("does not say"), "{said}");
        let unchecked = CostConfig {
            own: crate::bench::config::costs::Own { machine: None, ..config.own.clone() },
            ..config
        };
        assert!(machine(&unchecked, &meta(local, None)).unwrap().contains("own.machine"));
    }

    #[test]
    fn other_weights_are_named() {
        let config: CostConfig = toml::from_str(COSTS).unwrap();
        let of = |base: Option<&str>, model: &str| {
            let base_model = base.map(str::to_owned);
            weights(&config, &Meta { base_model, model: model.into(), ..Meta::default() })
        };
        assert_eq!(of(Some("llama 3.1 8b instruct"), "x"), None);
        assert_eq!(of(None, "meta-llama/Llama-3.1-8B-Instruct"), None);
        let said = of(Some("SmolLM2 135M Instruct"), "x").unwrap();
        assert!(said.contains("SmolLM2") && said.contains("other weights"), "{said}");
    }

    #[test]
    fn where_a_server_ran() {
        let ran = |url: &str| ran_here(&Meta { base_url: url.into(), ..Meta::default() });
        for url in ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1"] {
            assert!(ran(url), "{url}");
        }
        for url in ["https://api.example/v1", "http://192.168.1.4:8000/v1", ""] {
            assert!(!ran(url), "{url}");
        }
    }
}
