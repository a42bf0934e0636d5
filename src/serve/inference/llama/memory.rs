//! How much memory a model needs, estimated before any of it is taken, and how much there is.

use std::fs;
use std::path::Path;

use super::super::gguf::Header;
use super::options::{FlashAttn, KvType};

/// What a model needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needed {
    /// All tensors.
    pub(super) weights: u64,
    /// The KV cache of the whole context.
    pub(super) kv: u64,
    /// llama.cpp's compute buffers: an estimate, on the large side.
    pub(super) compute: u64,
}

impl Needed {
    pub(super) fn total(self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.compute)
    }
}

/// What a model's context is to be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) n_ctx: u32,
    pub(super) n_ubatch: u32,
    pub(super) kv_type: KvType,
    pub(super) flash_attn: FlashAttn,
}

/// An estimate from the file's header.
pub(super) fn needed(header: &Header, shape: Shape) -> Needed {
    // llama.cpp pads the context to 256 tokens.
    let n_ctx = u64::from(shape.n_ctx).next_multiple_of(256);
    Needed {
        weights: header.tensor_bytes(),
        kv: kv_bytes_per_token(header, shape.kv_type).saturating_mul(n_ctx),
        compute: compute_bytes(header, shape, n_ctx),
    }
}

/// Bytes of the KV cache for one token: for each layer a key and a value for each of its KV heads.
/// Layers with a sliding window keep fewer tokens than this says; layers without attention none.
pub(super) fn kv_bytes_per_token(header: &Header, kv_type: KvType) -> u64 {
    let n_layer = header.of_architecture("block_count").unwrap_or(0);
    let heads = header.of_each_layer("attention.head_count", n_layer).unwrap_or_default();
    let kv_heads =
        header.of_each_layer("attention.head_count_kv", n_layer).unwrap_or(heads.clone());
    let n_head = heads.first().copied().unwrap_or(1).max(1);
    let head = header.of_architecture("embedding_length").unwrap_or(0) / n_head;
    let key = header.of_architecture("attention.key_length").unwrap_or(head);
    let value = header.of_architecture("attention.value_length").unwrap_or(head);
    let layer = |n: u64| {
        kv_type.bytes(n.saturating_mul(key)).saturating_add(kv_type.bytes(n.saturating_mul(value)))
    };
    kv_heads.into_iter().map(layer).fold(0, u64::saturating_add)
}

/// The activations of one ubatch: some rows as wide as the model and its feed-forward layers, the
/// attention mask, one row of logits, and without flash attention a score for each head and pair of
/// tokens. The factors are chosen so that it is not less than what llama.cpp logs.
fn compute_bytes(header: &Header, shape: Shape, n_ctx: u64) -> u64 {
    const FLOAT: u64 = 4;
    let n_layer = header.of_architecture("block_count").unwrap_or(0);
    let largest = |key| header.of_each_layer(key, n_layer).and_then(|all| all.into_iter().max());
    let width = header.of_architecture("embedding_length").unwrap_or(0);
    let feed_forward = largest("feed_forward_length").unwrap_or(0);
    let heads = largest("attention.head_count").unwrap_or(0);
    let n_ubatch = u64::from(shape.n_ubatch).min(n_ctx);
    let activations = width.saturating_mul(8).saturating_add(feed_forward.saturating_mul(3));
    let row = activations.saturating_add(2 * n_ctx);
    let scores = if shape.flash_attn == FlashAttn::Off { heads.saturating_mul(n_ctx) } else { 0 };
    let vocabulary = match header.meta.get("tokenizer.ggml.tokens") {
        Some(super::super::gguf::Value::Array(n)) => *n,
        _ => 0,
    };
    let batch = n_ubatch.saturating_mul(row.saturating_add(scores));
    batch.saturating_add(2 * vocabulary).saturating_mul(FLOAT)
}

/// Bytes that this process may still take of the machine's memory, by the kernel's own estimate and
/// within its control group's limit; `None` where the system does not say.
pub(super) fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let machine = kib * 1024;
    Some(left_in_control_group().map_or(machine, |left| machine.min(left)))
}

/// What the limits of the process's control group (version 2) and of those above it leave.
fn left_in_control_group() -> Option<u64> {
    let group = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = group.lines().find_map(|line| line.strip_prefix("0::"))?;
    left_from(Path::new("/sys/fs/cgroup"), path)
}

/// The least that any group from `path` up to the root leaves: each limit holds for all below it.
fn left_from(root: &Path, path: &str) -> Option<u64> {
    let leaf = root.join(path.trim_start_matches('/'));
    let groups = leaf.ancestors().take_while(|folder| folder.starts_with(root));
    groups.filter_map(left_in).min()
}

/// What one group's own limit leaves; `None` without a limit.
fn left_in(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let current: u64 = read("memory.current")?.trim().parse().ok()?;
    // Cached files count as used there and are given back when memory is short.
    let stat = read("memory.stat").unwrap_or_default();
    let of = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let cached = of("inactive_file ") + of("active_file ");
    Some(limit.saturating_sub(current.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::super::super::gguf::Value;
    use super::*;

    fn header(extra: &[(&str, Value)]) -> Header {
        let mut header = Header::default();
        let mut set = |key: &str, value: Value| header.meta.insert(key.to_owned(), value);
        set("general.architecture", Value::Text("llama".to_owned()));
        set("llama.block_count", Value::Integer(32));
        set("llama.embedding_length", Value::Integer(4096));
        set("llama.attention.head_count", Value::Integer(32));
        set("llama.attention.head_count_kv", Value::Integer(8));
        for (key, value) in extra {
            set(key, value.clone());
        }
        header
    }

    #[test]
    fn the_kv_cache_of_llama_3_1_8b_takes_128_kib_a_token() {
        assert_eq!(kv_bytes_per_token(&header(&[]), KvType::F16), 131_072);
        assert_eq!(kv_bytes_per_token(&header(&[]), KvType::Q8_0), 69_632);
    }

    #[test]
    fn layers_without_attention_have_no_kv_cache() {
        let mixed =
            Value::Integers((0..32).map(|layer| if layer % 4 == 0 { 8 } else { 0 }).collect());
        let header = header(&[("llama.attention.head_count_kv", mixed)]);
        assert_eq!(kv_bytes_per_token(&header, KvType::F16), 131_072 / 4);
    }

    #[test]
    fn heads_may_be_wider_than_the_models_share() {
        let wide = [
            ("llama.attention.key_length", Value::Integer(256)),
            ("llama.attention.value_length", Value::Integer(256)),
        ];
        assert_eq!(kv_bytes_per_token(&header(&wide), KvType::F16), 262_144);
    }

    #[test]
    fn the_tightest_limit_of_all_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, limit: &str, current: u64, stat: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.max"), format!("{limit}\n")).unwrap();
            fs::write(folder.join("memory.current"), format!("{current}\n")).unwrap();
            fs::write(folder.join("memory.stat"), stat).unwrap();
        };
        group("pod/box/inner", "max", 10, "");
        assert_eq!(left_from(root.path(), "/pod/box/inner"), None);
        group("pod", "1000", 900, "anon 500\nactive_file 100\ninactive_file 50\n");
        assert_eq!(left_from(root.path(), "/pod/box/inner"), Some(250));
        group("pod/box", "600", 400, "");
        assert_eq!(left_from(root.path(), "/pod/box/inner"), Some(200));
        assert_eq!(left_from(root.path(), "/pod"), Some(250));
        // In a container of its own name space the path may name nothing.
        assert_eq!(left_from(root.path(), "/nowhere"), None);
    }

    #[test]
    fn absurd_figures_do_not_overflow() {
        let huge = [
            ("llama.embedding_length", Value::Integer(i64::MAX)),
            ("llama.attention.head_count_kv", Value::Integer(i64::MAX)),
        ];
        let shape = Shape {
            n_ctx: u32::MAX,
            n_ubatch: u32::MAX,
            kv_type: KvType::F16,
            flash_attn: FlashAttn::Off,
        };
        assert!(needed(&header(&huge), shape).total() > 0);
    }
}
