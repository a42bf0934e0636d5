//! What decides how fast the CPU may run: turbo, and whether the machine is on its battery.

use std::fs;
use std::path::Path;

/// Whether turbo is on; `None` where the kernel does not say.
pub(super) fn turbo(sys: &Path) -> Option<bool> {
    let cpu = sys.join("devices/system/cpu");
    let flag = |path: &str| Some(fs::read_to_string(cpu.join(path)).ok()?.trim() == "1");
    let off = flag("intel_pstate/no_turbo").map(|off| !off);
    off.or_else(|| flag("cpufreq/boost"))
}

/// `ac` or `battery`; `None` for a machine that has neither (or does not say).
pub(super) fn supply(sys: &Path) -> Option<&'static str> {
    let mut found = None;
    for entry in fs::read_dir(sys.join("class/power_supply")).ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let kind = read("type");
        // A mouse has a battery too: its scope is the device.
        if read("scope").trim() == "Device" {
            continue;
        }
        match kind.trim() {
            "Mains" | "USB" if read("online").trim() == "1" => return Some("ac"),
            "Battery" => {
                let draining = read("status").trim() == "Discharging";
                found = Some(if draining { "battery" } else { "ac" });
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply_file(sys: &Path, name: &str, files: &[(&str, &str)]) {
        let folder = sys.join("class/power_supply").join(name);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn a_laptop_is_on_ac_or_on_battery_and_a_mouse_is_no_laptop() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        assert_eq!(supply(sys), None);
        let mouse = [("type", "Battery"), ("scope", "Device"), ("status", "Discharging")];
        supply_file(sys, "mouse", &mouse);
        assert_eq!(supply(sys), None);
        supply_file(sys, "BAT0", &[("type", "Battery"), ("status", "Discharging")]);
        supply_file(sys, "AC", &[("type", "Mains"), ("online", "0")]);
        assert_eq!(supply(sys), Some("battery"));
        supply_file(sys, "AC", &[("online", "1")]);
        assert_eq!(supply(sys), Some("ac"));
    }

    #[test]
    fn turbo_is_read_from_either_driver() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        assert_eq!(turbo(sys), None);
        let cpu = sys.join("devices/system/cpu");
        fs::create_dir_all(cpu.join("cpufreq")).unwrap();
        fs::write(cpu.join("cpufreq/boost"), "1\n").unwrap();
        assert_eq!(turbo(sys), Some(true));
        fs::create_dir_all(cpu.join("intel_pstate")).unwrap();
        fs::write(cpu.join("intel_pstate/no_turbo"), "1\n").unwrap();
        assert_eq!(turbo(sys), Some(false));
    }
}
