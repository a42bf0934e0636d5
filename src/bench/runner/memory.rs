//! Whether a server gave its memory back: in use before its start, and after its stop.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::bench::telemetry::{MemoryInUse, NvmlLibrary, memory_in_use};
use crate::measure::flags::{Flag, Memory, memory_not_released};
use crate::measure::hardware::not_released;
use crate::results::record::ServerMemory;

/// How long a driver may take to give memory back: what is not back then is lost to the next server.
const RELEASE_DEADLINE: Duration = Duration::from_secs(10);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Memory in use now: the devices', the machine's where no device tells, `None` where neither does.
pub async fn in_use() -> Option<MemoryInUse> {
    let look = || memory_in_use(&NvmlLibrary::from_environment());
    // A look that panics tells nothing, like one that fails.
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

/// What was in use before a start and after the stop, and the flag if that is too much more.
///
/// Looks until the memory is back, or ten seconds have passed, or the run was cancelled.
pub async fn after_stop(
    before: Option<MemoryInUse>,
    cancel: &CancellationToken,
) -> (ServerMemory, Option<Flag>) {
    let look_until_back = async {
        loop {
            let after = in_use().await;
            let flag = judge(before, after);
            if flag.is_none() {
                return (after, flag);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let (after, flag) = tokio::select! {
        back = look_until_back => back,
        () = tokio::time::sleep(RELEASE_DEADLINE) => {
            let after = in_use().await;
            (after, judge(before, after))
        }
        // Somebody waits for the end: nothing is known of the memory then.
        () = cancel.cancelled() => (None, None),
    };
    let memory = ServerMemory {
        before_bytes: before.map(|before| before.bytes),
        after_bytes: after.map(|after| after.bytes),
        source: before.or(after).map(|memory| memory.source.to_owned()),
    };
    (memory, flag)
}

/// A flag if much more is in use after than before; two different sources cannot be compared.
fn judge(before: Option<MemoryInUse>, after: Option<MemoryInUse>) -> Option<Flag> {
    let (before, after) =
        before.zip(after).filter(|(before, after)| before.source == after.source)?;
    let kept = not_released(Some(before.bytes), Some(after.bytes))?;
    let memory = if after.source == "nvml" { Memory::Devices } else { Memory::Machine };
    memory_not_released(kept, memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_memory_is_compared() {
        let memory = |bytes, source| Some(MemoryInUse { bytes, source });
        let much = 1 << 30;
        let flag = judge(memory(0, "nvml"), memory(much, "nvml")).unwrap();
        assert!(flag.text.contains("device memory"), "{}", flag.text);
        let flag = judge(memory(0, "meminfo"), memory(much, "meminfo")).unwrap();
        assert!(flag.text.contains("the machine's memory"), "{}", flag.text);
        assert_eq!(judge(memory(0, "nvml"), memory(much, "meminfo")), None);
        assert_eq!(judge(memory(much, "nvml"), memory(0, "nvml")), None);
        assert_eq!(judge(None, memory(much, "nvml")), None);
    }
}
