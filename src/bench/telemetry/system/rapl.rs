//! Energy of the CPU packages, from the kernel's powercap files.
//!
//! Only the packages, and each by one interface: some Intel processors have theirs a second time, as
//! `intel-rapl-mmio`. The platform domain (`psys`) holds them and must not be added, and the cores
//! and memory of a package are parts of it. The files are root's alone on most machines, absent on
//! Arm and in most virtual machines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::measure::hardware::counter_step;

/// Why the CPU's energy cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RaplError {
    /// The kernel or the machine has no such counter.
    #[error("the kernel offers no CPU energy counter here")]
    Absent,
    /// There is one, and it cannot be read: most often it is root's alone.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What reading it gave.
        error: io::Error,
    },
}

/// One package's counter.
struct Package {
    energy: PathBuf,
    /// Where it wraps, microjoules.
    range: u64,
    last: u64,
}

/// The packages' counters, wraps taken out. They wrap after a minute at the least, so a reader that
/// comes by every second sees each turn.
pub struct Packages {
    packages: Vec<Package>,
    total_uj: u64,
}

impl Packages {
    /// Finds the packages under `/sys/class/powercap`.
    ///
    /// # Errors
    /// Where there is none or one may not be read.
    pub fn open(powercap: &Path) -> Result<Self, RaplError> {
        let unreadable =
            |path: &Path, error: io::Error| RaplError::Unreadable { path: path.to_owned(), error };
        let entries = match fs::read_dir(powercap) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RaplError::Absent),
            Err(error) => return Err(unreadable(powercap, error)),
            Ok(entries) => entries,
        };
        let mut packages = Vec::new();
        let first_interface =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("intel-rapl:");
        for entry in entries.flatten().filter(first_interface) {
            let folder = entry.path();
            let name = fs::read_to_string(folder.join("name")).unwrap_or_default();
            if !name.starts_with("package") {
                continue;
            }
            let energy = folder.join("energy_uj");
            let last = number(&energy).map_err(|error| unreadable(&energy, error))?;
            let range = number(&folder.join("max_energy_range_uj")).unwrap_or(u64::MAX);
            packages.push(Package { energy, range, last });
        }
        if packages.is_empty() {
            return Err(RaplError::Absent);
        }
        Ok(Self { packages, total_uj: 0 })
    }

    /// Joules since it was opened; `None` where a counter cannot be read any more.
    pub fn joules(&mut self) -> Option<f64> {
        for package in &mut self.packages {
            let now = number(&package.energy).ok()?;
            self.total_uj += counter_step(package.last, now, package.range);
            package.last = now;
        }
        Some(self.total_uj as f64 / 1e6)
    }
}

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::other("not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(root: &Path, folder: &str, name: &str, energy: u64) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("energy_uj"), format!("{energy}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), "10000000\n").unwrap();
    }

    #[test]
    fn packages_are_added_wraps_taken_out_and_the_platform_left_out() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        domain(root, "intel-rapl:0", "package-0", 9_000_000);
        domain(root, "intel-rapl:1", "package-1", 1_000_000);
        domain(root, "intel-rapl:2", "psys", 5_000_000);
        domain(root, "intel-rapl:0:0", "core", 5_000_000);
        // Recent laptops have the package once more, by another interface.
        domain(root, "intel-rapl-mmio:0", "package-0", 9_000_000);
        let mut packages = Packages::open(root).unwrap();
        assert_eq!(packages.joules(), Some(0.0));
        domain(root, "intel-rapl:0", "package-0", 500_000);
        domain(root, "intel-rapl:1", "package-1", 3_000_000);
        domain(root, "intel-rapl:2", "psys", 9_000_000);
        domain(root, "intel-rapl-mmio:0", "package-0", 500_000);
        assert_eq!(packages.joules(), Some(1.5 + 2.0));
        fs::remove_file(root.join("intel-rapl:1/energy_uj")).unwrap();
        assert_eq!(packages.joules(), None);
    }

    #[test]
    fn a_machine_without_the_counter_says_so() {
        let root = tempfile::tempdir().unwrap();
        let absent = Packages::open(&root.path().join("absent"));
        assert!(matches!(absent, Err(RaplError::Absent)));
        assert!(matches!(Packages::open(root.path()), Err(RaplError::Absent)));
    }
}
