//! Why facts of the machine are missing.

use std::collections::BTreeMap;

use crate::results::record::Host;

use super::super::nvml::NvmlHeader;

/// A reason for each null.
pub(super) fn of(host: &Host, driver: Result<&NvmlHeader, &String>) -> BTreeMap<String, String> {
    let untold = "this system does not tell";
    let of_driver = driver
        .map_or_else(|why| format!("no GPU: {why}"), |_| "the driver does not tell".to_owned());
    let values = [
        ("hostname_hash", host.hostname_hash.is_none(), untold),
        ("os", host.os.is_none(), untold),
        ("kernel", host.kernel.is_none(), untold),
        ("cpu", host.cpu.is_none(), untold),
        ("cores_physical", host.cores_physical.is_none(), untold),
        ("cores_logical", host.cores_logical.is_none(), untold),
        ("memory_total_bytes", host.memory_total_bytes.is_none(), untold),
        ("driver", host.driver.is_none(), &of_driver),
        ("cuda", host.cuda.is_none(), &of_driver),
        ("governor", host.governor.is_none(), "the kernel tells of no governor"),
        ("turbo", host.turbo.is_none(), "the kernel does not say whether there is a turbo"),
        (
            "power_supply",
            host.power_supply.is_none(),
            "the kernel tells of no adapter and no battery",
        ),
        (
            "cgroup_cpu_quota",
            host.cgroup_cpu_quota.is_none(),
            "no limit of a control group was found",
        ),
        (
            "virtual_machine",
            host.virtual_machine.is_none(),
            "neither firmware nor processor says whether this is one",
        ),
    ];
    let missing = values.into_iter().filter(|(_, missing, _)| *missing);
    let mut reasons: BTreeMap<String, String> =
        missing.map(|(key, _, why)| (key.to_owned(), why.to_owned())).collect();
    let devices = driver.map_or(&[][..], |driver| &driver.devices);
    for (place, (gpu, info)) in host.gpus.iter().zip(devices).enumerate() {
        for (key, missing) in [
            ("name", gpu.name.is_none()),
            ("uuid", gpu.uuid.is_none()),
            ("vbios", gpu.vbios.is_none()),
            ("power_limit_w", gpu.power_limit_w.is_none()),
            ("compute_capability", gpu.compute_capability.is_none()),
            ("memory_total_bytes", gpu.memory_total_bytes.is_none()),
        ] {
            let why = info.capabilities.get(key).filter(|_| missing);
            reasons.extend(why.map(|why| (format!("gpus.{place}.{key}"), why.to_string())));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::telemetry::SystemPaths;
    use crate::bench::telemetry::host_facts::host_facts_with;

    #[test]
    fn every_null_of_a_host_has_a_reason() {
        let empty = tempfile::tempdir().unwrap();
        let folder = empty.path().to_owned();
        let paths = SystemPaths { proc: folder.clone(), sys: folder };
        let this = host_facts_with(&paths, Err(&"no library".to_owned()));
        assert_eq!(this.reasons["cuda"], "no GPU: no library");
        assert!(this.reasons.contains_key("turbo"));
        let untold = Host { reasons: BTreeMap::new(), arch: Some("x".into()), ..Host::default() };
        for host in [this, Host { reasons: of(&untold, Ok(&NvmlHeader::default())), ..untold }] {
            let json = serde_json::to_value(&host).unwrap();
            let nulls = json.as_object().unwrap().iter().filter(|(_, value)| value.is_null());
            let without: Vec<_> =
                nulls.filter(|(key, _)| !host.reasons.contains_key(*key)).collect();
            assert!(without.is_empty(), "{without:?}");
        }
    }
}
