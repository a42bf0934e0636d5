//! Energy by one of the kernel's hardware monitors, on machines without RAPL: Arm boards, if any.
//!
//! One sensor alone and never a sum, since rails lie within each other and no file says which in
//! which: the whole machine's input under a name that is known, else the only sensor there is.
//! Its name goes with the figure, which covers what that names and nothing else. Averages
//! (`power*_average`) and the volts and amperes of a Jetson's monitors are not read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of a whole machine's input, the outermost first: two of a DGX Spark by the driver
/// `spark_hwmon`, and that of NVIDIA's boards.
const WHOLE: [&str; 3] = ["dc_input", "sys_total", "vdd_in"];

/// Why no sensor is read.
#[derive(Debug, thiserror::Error)]
pub enum HwmonError {
    /// There is none.
    #[error("no hardware monitor tells power or energy")]
    Absent,
    /// There are several, none of which is known to hold the others.
    #[error("of {} none is known to cover the whole machine", .0.join(", "))]
    Several(Vec<String>),
    /// There is one, and it cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What reading it gave.
        error: io::Error,
    },
}

/// What a file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Microjoules, cumulative.
    Energy,
    /// Microwatts.
    Power,
}

/// One sensor, read again and again.
pub struct Sensor {
    name: String,
    kind: Kind,
    input: PathBuf,
    /// The reading before: its instant, and the value in joules or watts.
    last: Option<(Duration, f64)>,
    joules: f64,
}

impl Sensor {
    /// Finds the sensor under `/sys/class/hwmon`.
    ///
    /// # Errors
    /// Where there is none, none that can be chosen, or it may not be read.
    pub fn open(hwmon: &Path) -> Result<Self, HwmonError> {
        let mut all = sensors(hwmon);
        let rank = |sensor: &Self| {
            let name = sensor.name.to_lowercase();
            WHOLE.iter().position(|whole| name.ends_with(whole))
        };
        all.sort_by_key(|sensor| rank(sensor).unwrap_or(WHOLE.len()));
        let sensor = match all.as_slice() {
            [] => return Err(HwmonError::Absent),
            [first, _, ..] if rank(first).is_none() => {
                return Err(HwmonError::Several(all.into_iter().map(|one| one.name).collect()));
            }
            [..] => all.swap_remove(0),
        };
        match sensor.value() {
            Ok(_) => Ok(sensor),
            Err(error) => Err(HwmonError::Unreadable { path: sensor.input, error }),
        }
    }

    /// The driver's name and the sensor's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Joules since the first reading, where `now` is the sampler's time; `None` where it cannot be
    /// read this time. Power is integrated by the trapezoid rule.
    pub fn joules(&mut self, now: Duration) -> Option<f64> {
        let value = self.value().ok()?;
        if let Some((then, before)) = self.last.replace((now, value)) {
            self.joules += match self.kind {
                Kind::Energy => value - before,
                Kind::Power => {
                    now.saturating_sub(then).as_secs_f64() * f64::midpoint(before, value)
                }
            };
        }
        Some(self.joules)
    }

    /// Joules or watts.
    fn value(&self) -> io::Result<f64> {
        let text = fs::read_to_string(&self.input)?;
        let micro: u64 = text.trim().parse().map_err(|_| io::Error::other("not a number"))?;
        Ok(micro as f64 / 1e6)
    }
}

/// All sensors of power or energy; of one that tells both, its energy.
fn sensors(hwmon: &Path) -> Vec<Sensor> {
    let mut found: Vec<Sensor> = files_of(hwmon).iter().flat_map(|chip| sensors_of(chip)).collect();
    let place = |sensor: &Sensor| (sensor.input.parent().map(Path::to_owned), sensor.name.clone());
    found.sort_by_key(|sensor| (place(sensor), sensor.kind));
    found.dedup_by_key(|sensor| place(sensor));
    found
}

fn sensors_of(chip: &Path) -> Vec<Sensor> {
    // The monitor of a battery or a charger: what it takes or gives is not what the machine uses.
    if chip.join("device/type").exists() {
        return Vec::new();
    }
    let text = |file: &str| fs::read_to_string(chip.join(file)).ok();
    let driver = text("name").unwrap_or_default();
    let sensor = |input: PathBuf| {
        let channel = input.file_name()?.to_str()?.strip_suffix("_input")?.to_owned();
        let (kind, number) = match (channel.strip_prefix("energy"), channel.strip_prefix("power")) {
            (Some(number), _) => (Kind::Energy, number),
            (None, Some(number)) => (Kind::Power, number),
            (None, None) => return None,
        };
        let label = text(&format!("{channel}_label")).unwrap_or_else(|| number.to_owned());
        let name = format!("{} {}", driver.trim(), label.trim());
        Some(Sensor { name, kind, input, last: None, joules: 0.0 })
    };
    files_of(chip).into_iter().filter_map(sensor).collect()
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(hwmon: &Path, folder: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = hwmon.join(folder).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_whole_machines_input_is_read_alone_and_named() {
        let root = tempfile::tempdir().unwrap();
        let hwmon = root.path();
        chip(hwmon, "hwmon0", &[("name", "nvme"), ("temp1_input", "40000")]);
        chip(
            hwmon,
            "hwmon1",
            &[
                ("name", "spbm"),
                ("power1_label", "sys_total"),
                ("power1_input", "60000000"),
                ("power2_label", "gpu"),
                ("power2_input", "30000000"),
                ("power7_label", "dc_input"),
                ("power7_input", "70000000"),
                ("energy1_label", "gpu"),
                ("energy1_input", "5"),
            ],
        );
        let mut sensor = Sensor::open(hwmon).unwrap();
        assert_eq!(sensor.name(), "spbm dc_input");
        assert_eq!(sensor.joules(s(10)), Some(0.0));
        chip(hwmon, "hwmon1", &[("power7_input", "90000000")]);
        assert_eq!(sensor.joules(s(12)), Some(160.0));
        fs::remove_file(hwmon.join("hwmon1/power7_input")).unwrap();
        assert_eq!(sensor.joules(s(13)), None);
        chip(hwmon, "hwmon1", &[("power7_input", "90000000")]);
        assert_eq!(sensor.joules(s(14)), Some(340.0));
    }

    #[test]
    fn the_only_sensor_is_read_by_its_counter_and_named_whatever_it_covers() {
        let root = tempfile::tempdir().unwrap();
        let hwmon = root.path();
        chip(hwmon, "hwmon2", &[("name", "xe"), ("energy1_input", "7000000")]);
        chip(hwmon, "hwmon2", &[("power1_input", "3")]);
        // A laptop's battery is no sensor of what the machine uses.
        chip(
            hwmon,
            "hwmon3",
            &[("name", "BAT0"), ("power1_input", "1"), ("device/type", "Battery")],
        );
        let mut sensor = Sensor::open(hwmon).unwrap();
        assert_eq!(sensor.name(), "xe 1");
        assert_eq!(sensor.joules(s(0)), Some(0.0));
        chip(hwmon, "hwmon2", &[("energy1_input", "9500000")]);
        assert_eq!(sensor.joules(s(1)), Some(2.5));
    }

    #[test]
    fn what_cannot_be_chosen_or_read_says_why() {
        let root = tempfile::tempdir().unwrap();
        let hwmon = root.path();
        assert!(matches!(Sensor::open(&hwmon.join("absent")), Err(HwmonError::Absent)));
        chip(hwmon, "hwmon0", &[("name", "xgene"), ("power1_label", "CPU power")]);
        chip(hwmon, "hwmon0", &[("power1_input", "?")]);
        let why = Sensor::open(hwmon).map(drop).unwrap_err().to_string();
        assert!(why.ends_with("power1_input: not a number"), "{why}");
        chip(hwmon, "hwmon0", &[("power2_label", "IO power"), ("power2_input", "1")]);
        let why = Sensor::open(hwmon).map(drop).unwrap_err().to_string();
        let both = "of xgene CPU power, xgene IO power none is known to cover the whole machine";
        assert_eq!(why, both);
    }
}
