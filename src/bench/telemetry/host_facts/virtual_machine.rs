//! Whether this is a virtual machine, and of which kind.

use std::fs;

use super::SystemPaths;

/// What makers of virtual machines call themselves in the firmware's tables.
const MAKERS: [&str; 9] = [
    "QEMU",
    "KVM",
    "VMware",
    "innotek",
    "Xen",
    "Amazon EC2",
    "Google Compute",
    "OpenStack",
    "Virtual Machine",
];

/// The kind, `no`, or `None` where that cannot be told (the processor of an Arm machine does not
/// say whether somebody pretends to be it).
pub(super) fn kind(paths: &SystemPaths) -> Option<String> {
    let dmi = |name: &str| {
        let text = fs::read_to_string(paths.sys.join("class/dmi/id").join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let named: Vec<String> = ["sys_vendor", "product_name"].into_iter().filter_map(dmi).collect();
    let named = named.join(" ");
    if MAKERS.iter().any(|maker| named.contains(maker)) {
        return Some(named);
    }
    if let Ok(hypervisor) = fs::read_to_string(paths.sys.join("hypervisor/type")) {
        return Some(hypervisor.trim().to_owned());
    }
    let cpuinfo = fs::read_to_string(paths.proc.join("cpuinfo")).ok()?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let virtual_machine = flags.split_ascii_whitespace().any(|flag| flag == "hypervisor");
    Some(if virtual_machine { "yes".to_owned() } else { "no".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths { proc: root.path().join("proc"), sys: root.path().join("sys") };
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        kind(&paths)
    }

    #[test]
    fn the_firmware_names_the_kind_and_the_processor_says_whether() {
        let qemu = [("sys/class/dmi/id/sys_vendor", "QEMU\n")];
        assert_eq!(machine(&qemu).as_deref(), Some("QEMU"));
        let guest = [("proc/cpuinfo", "model name: x\nflags\t\t: fpu hypervisor\n")];
        assert_eq!(machine(&guest).as_deref(), Some("yes"));
        let desk = [
            ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
            ("proc/cpuinfo", "flags\t\t: fpu vme\n"),
        ];
        assert_eq!(machine(&desk).as_deref(), Some("no"));
        assert_eq!(machine(&[("proc/cpuinfo", "Features : fp asimd\n")]), None);
    }
}
