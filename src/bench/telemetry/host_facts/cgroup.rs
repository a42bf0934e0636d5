//! How many CPUs the cgroup allows: a container on a large machine may have half of one.

use std::fs;
use std::path::{Path, PathBuf};

use super::SystemPaths;

/// CPUs that the cgroup and those above it allow; `None` without a limit.
pub(super) fn cpu_quota(paths: &SystemPaths) -> Option<f64> {
    let text = fs::read_to_string(paths.proc.join("self/cgroup")).ok()?;
    let root = paths.sys.join("fs/cgroup");
    let quotas = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.is_empty() {
            // Version 2, alone or beside version 1.
            let here = smallest(&root, path, version_2);
            let beside = smallest(&root.join("unified"), path, version_2);
            return least(here, beside);
        }
        let cpu = controllers.split(',').any(|controller| controller == "cpu");
        cpu.then(|| {
            let joined = smallest(&root.join(controllers), path, version_1);
            least(joined, smallest(&root.join("cpu"), path, version_1))
        })?
    });
    quotas.reduce(f64::min)
}

fn least(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    left.into_iter().chain(right).reduce(f64::min)
}

/// The smallest quota from a group up to its root.
fn smallest(root: &Path, path: &str, quota: fn(&Path) -> Option<f64>) -> Option<f64> {
    let leaf: PathBuf = root.join(path.trim_start_matches('/'));
    let up = leaf.ancestors().take_while(|folder| folder.starts_with(root));
    up.filter_map(quota).reduce(f64::min)
}

/// `cpu.max`: quota and period in microseconds, or `max`.
fn version_2(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<f64>);
    Some(numbers.next()?.ok()? / numbers.next()?.ok()?)
}

/// `cpu.cfs_quota_us` (−1 is none) and `cpu.cfs_period_us`.
fn version_1(folder: &Path) -> Option<f64> {
    let number =
        |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<f64>().ok();
    let quota = number("cpu.cfs_quota_us").filter(|quota| *quota > 0.0)?;
    Some(quota / number("cpu.cfs_period_us").filter(|period| *period > 0.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cgroup: &str, files: &[(&str, &str)]) -> Option<f64> {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths { proc: root.path().join("proc"), sys: root.path().join("sys") };
        fs::create_dir_all(paths.proc.join("self")).unwrap();
        fs::write(paths.proc.join("self/cgroup"), cgroup).unwrap();
        for (path, text) in files {
            let path = paths.sys.join("fs/cgroup").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        cpu_quota(&paths)
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let files = [("a/b/cpu.max", "max 100000\n"), ("a/cpu.max", "150000 100000\n")];
        assert_eq!(machine("0::/a/b\n", &files), Some(1.5));
        assert_eq!(machine("0::/a/b\n", &files[..1]), None);
    }

    #[test]
    fn version_1_has_its_own_files_and_minus_one_is_no_limit() {
        let files =
            [("cpu/x/cpu.cfs_quota_us", "50000\n"), ("cpu/x/cpu.cfs_period_us", "100000\n")];
        assert_eq!(machine("4:memory:/x\n3:cpu,cpuacct:/x\n", &files), Some(0.5));
        let none = [("cpu/cpu.cfs_quota_us", "-1\n"), ("cpu/cpu.cfs_period_us", "100000\n")];
        assert_eq!(machine("1:cpu:/\n", &none), None);
        assert_eq!(machine("", &[]), None);
    }
}
