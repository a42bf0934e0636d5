//! Reads the header of a GGUF file: enough to refuse a file with a clear reason, and to know how much
//! memory a model needs before any of it is loaded.
//!
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little
//! endian. Every length is checked against what is left of the file before anything is allocated, so
//! no file can make this panic, loop or take much memory.

use std::collections::HashMap;
use std::io::{self, Read};

use super::gguf_types::tensor_bytes;

/// What the header says.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// Metadata that is a number, a text or a flag; of arrays only their numbers.
    pub meta: HashMap<String, Value>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<Tensor>,
    /// Where the tensors' data begin.
    pub data_offset: u64,
}

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any integer or flag.
    Integer(i64),
    /// Any floating-point number.
    Float(f64),
    /// A text; not necessarily valid UTF-8 in the file.
    Text(String),
    /// An array of integers.
    Integers(Vec<i64>),
    /// Any other array: its length only.
    Array(u64),
}

/// A tensor's place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, `output.weight` for example.
    pub name: String,
    /// Its size in bytes; `None` for a type that this program does not know.
    pub bytes: Option<u64>,
    /// Number of elements.
    pub elements: u64,
    /// The size in bytes of one row, such as the embedding of one token; `None` as for `bytes`.
    pub row_bytes: Option<u64>,
    /// From the beginning of the data.
    pub offset: u64,
}

/// Why a header could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The first four bytes are others.
    #[error("not a GGUF file")]
    NotGguf,
    /// The file ends within the header.
    #[error("the file ends within its header")]
    Ends,
    /// It can't be right.
    #[error("a damaged header: {0}")]
    Damaged(String),
    /// The system said no.
    #[error("{0}")]
    Io(String),
}

/// Longer names and texts are damage: chat templates, the longest of all, have some 10 kB.
const TEXT_BYTES_MAX: u64 = 16 << 20;
/// More dimensions than ggml has.
const DIMENSIONS_MAX: u32 = 8;
/// Arrays of integers that are longer than this are counted, not kept: only per-layer figures matter.
const INTEGERS_KEPT_MAX: u64 = 4096;
/// Arrays may contain arrays; no known file nests them deeper.
const NESTING_MAX: u32 = 4;

impl Header {
    /// Reads the header of a file of `file_bytes` bytes.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn read(input: impl Read, file_bytes: u64) -> Result<Self, HeaderError> {
        let mut reader = Reader { input, at: 0, file_bytes };
        if reader.bytes::<4>().is_ok_and(|magic| magic != *b"GGUF") || file_bytes < 4 {
            return Err(HeaderError::NotGguf);
        }
        let version = reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(HeaderError::Damaged(format!(
                "version {version}, of which nothing is known"
            )));
        }
        let n_tensors = reader.u64()?;
        let n_meta = reader.u64()?;
        let mut header = Self::default();
        for _ in 0..n_meta {
            let key = reader.text()?;
            let kind = reader.u32()?;
            let value = reader.value(kind, 0)?;
            header.meta.insert(key, value);
        }
        for _ in 0..n_tensors {
            header.tensors.push(reader.tensor()?);
        }
        let alignment = header.integer("general.alignment").unwrap_or(32).max(1);
        header.data_offset = reader.at.next_multiple_of(alignment);
        Ok(header)
    }

    /// A number that is not negative.
    pub fn integer(&self, key: &str) -> Option<u64> {
        match self.meta.get(key)? {
            Value::Integer(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.meta.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What kind of model it is; empty if the file does not say.
    pub fn architecture(&self) -> &str {
        self.text("general.architecture").unwrap_or_default()
    }

    /// The number under `{architecture}.{key}`.
    pub fn of_architecture(&self, key: &str) -> Option<u64> {
        self.integer(&format!("{}.{key}", self.architecture()))
    }

    /// The same number for each of `n` layers, whether the file gives one or one for each.
    pub fn of_each_layer(&self, key: &str, n: u64) -> Option<Vec<u64>> {
        match self.meta.get(&format!("{}.{key}", self.architecture()))? {
            Value::Integer(value) => {
                let value = u64::try_from(*value).ok()?;
                (n <= INTEGERS_KEPT_MAX).then(|| (0..n).map(|_| value).collect())
            }
            Value::Integers(values) => {
                values.iter().map(|&value| u64::try_from(value).ok()).collect()
            }
            _ => None,
        }
    }

    /// Where the last tensor ends: the least that the file must have, in bytes; 0 without tensors,
    /// since the padding before the first one need not be there either.
    pub fn expected_bytes(&self) -> u64 {
        let end = |tensor: &Tensor| {
            let start = self.data_offset.saturating_add(tensor.offset);
            start.saturating_add(tensor.bytes.unwrap_or(0))
        };
        self.tensors.iter().map(end).max().unwrap_or(0)
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> u64 {
        let sizes = self.tensors.iter().filter_map(|tensor| tensor.bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Whether the model makes embeddings and no text: it pools its output, or its attention looks
    /// both ways.
    pub fn is_embedding_only(&self) -> bool {
        const BOTH_WAYS: [&str; 4] = ["bert", "t5encoder", "eurobert", "neo-bert"];
        let architecture = self.architecture();
        let pools = self.of_architecture("pooling_type").is_some_and(|kind| kind != 0);
        let both_ways = self.of_architecture("attention.causal") == Some(0);
        pools || both_ways || BOTH_WAYS.contains(&architecture) || architecture.ends_with("-bert")
    }

    /// Bytes of weights read for each token of a decode.
    ///
    /// Of the table of input embeddings one row is read, unless it serves as the output as well; of
    /// a mixture of experts only those that are used.
    pub fn bytes_read_per_token(&self) -> u64 {
        let has_output = self.tensors.iter().any(|tensor| tensor.name == "output.weight");
        let (experts, used) =
            (self.of_architecture("expert_count"), self.of_architecture("expert_used_count"));
        let read = |tensor: &Tensor| {
            let bytes = tensor.bytes.unwrap_or(0);
            match (experts, used) {
                _ if tensor.name == "token_embd.weight" && has_output => {
                    tensor.row_bytes.unwrap_or(0)
                }
                (Some(experts), Some(used)) if experts > 0 && tensor.name.contains("_exps.") => {
                    bytes / experts * used.min(experts)
                }
                _ => bytes,
            }
        };
        self.tensors.iter().map(read).fold(0, u64::saturating_add)
    }
}

/// Reads and counts.
struct Reader<R> {
    input: R,
    at: u64,
    file_bytes: u64,
}

impl<R: Read> Reader<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => HeaderError::Ends,
            _ => HeaderError::Io(error.to_string()),
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, HeaderError> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, HeaderError> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A length in bytes that the rest of the file must have room for.
    fn room_for(&self, bytes: Option<u64>) -> Result<u64, HeaderError> {
        let left = self.file_bytes.saturating_sub(self.at);
        bytes.filter(|&bytes| bytes <= left).ok_or(HeaderError::Ends)
    }

    fn text(&mut self) -> Result<String, HeaderError> {
        let length = self.u64()?;
        if length > TEXT_BYTES_MAX {
            return Err(HeaderError::Damaged(format!("a text of {length} bytes")));
        }
        let length = self.room_for(Some(length))?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| HeaderError::Ends)?];
        self.fill(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value, HeaderError> {
        Ok(match kind {
            0 => Value::Integer(i64::from(u8::from_le_bytes(self.bytes()?))),
            1 => Value::Integer(i64::from(i8::from_le_bytes(self.bytes()?))),
            2 => Value::Integer(i64::from(u16::from_le_bytes(self.bytes()?))),
            3 => Value::Integer(i64::from(i16::from_le_bytes(self.bytes()?))),
            4 => Value::Integer(i64::from(self.u32()?)),
            5 => Value::Integer(i64::from(i32::from_le_bytes(self.bytes()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.bytes()?))),
            7 => Value::Integer(i64::from(self.bytes::<1>()?[0] != 0)),
            8 => Value::Text(self.text()?),
            9 => self.array(depth)?,
            10 => Value::Integer(i64::try_from(self.u64()?).unwrap_or(i64::MAX)),
            11 => Value::Integer(i64::from_le_bytes(self.bytes()?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes()?)),
            _ => return Err(HeaderError::Damaged(format!("a value of type {kind}"))),
        })
    }

    fn array(&mut self, depth: u32) -> Result<Value, HeaderError> {
        let kind = self.u32()?;
        let length = self.u64()?;
        if depth >= NESTING_MAX {
            return Err(HeaderError::Damaged("arrays in arrays in arrays".to_owned()));
        }
        // The smallest element has one byte, so this bounds the loop by the file's size.
        self.room_for(Some(length))?;
        let mut integers = Vec::new();
        for _ in 0..length {
            match self.value(kind, depth + 1)? {
                Value::Integer(value) if length <= INTEGERS_KEPT_MAX => integers.push(value),
                _ => {}
            }
        }
        let all = integers.len() as u64 == length && length > 0;
        Ok(if all { Value::Integers(integers) } else { Value::Array(length) })
    }

    fn tensor(&mut self) -> Result<Tensor, HeaderError> {
        let name = self.text()?;
        let n_dimensions = self.u32()?;
        if n_dimensions > DIMENSIONS_MAX {
            return Err(HeaderError::Damaged(format!("{name}: {n_dimensions} dimensions")));
        }
        let mut elements: u64 = 1;
        let mut row_elements = None;
        for _ in 0..n_dimensions {
            let size = self.u64()?;
            row_elements.get_or_insert(size);
            elements = elements
                .checked_mul(size)
                .ok_or_else(|| HeaderError::Damaged(format!("{name}: too large")))?;
        }
        let kind = self.u32()?;
        let offset = self.u64()?;
        let row_bytes = tensor_bytes(kind, row_elements.unwrap_or(1));
        Ok(Tensor { bytes: tensor_bytes(kind, elements), name, elements, row_bytes, offset })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A small file: header, and the data of its tensors, each of two rows.
    fn file(architecture: &str, extra: &[(&str, u32)], tensors: &[(&str, u64)]) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        };
        out.extend(3u32.to_le_bytes());
        out.extend((tensors.len() as u64).to_le_bytes());
        out.extend((extra.len() as u64 + 1).to_le_bytes());
        text(&mut out, "general.architecture");
        out.extend(8u32.to_le_bytes());
        text(&mut out, architecture);
        for (key, value) in extra {
            text(&mut out, key);
            out.extend(4u32.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        let mut offset = 0u64;
        for (name, elements) in tensors {
            text(&mut out, name);
            out.extend(2u32.to_le_bytes());
            out.extend((elements / 2).to_le_bytes());
            out.extend(2u64.to_le_bytes());
            out.extend(0u32.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += (elements * 4).next_multiple_of(32);
        }
        out.resize(out.len().next_multiple_of(32) + usize::try_from(offset).unwrap(), 0);
        out
    }

    fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        Header::read(bytes, bytes.len() as u64)
    }

    #[test]
    fn a_small_file() {
        let tensors = [("token_embd.weight", 64), ("blk.0.attn_q.weight", 10)];
        let bytes = file("llama", &[("llama.block_count", 2)], &tensors);
        let header = read(&bytes).unwrap();
        assert_eq!(header.architecture(), "llama");
        assert_eq!(header.of_architecture("block_count"), Some(2));
        assert_eq!(header.tensor_bytes(), 296);
        assert_eq!(header.expected_bytes(), bytes.len() as u64 - 24);
        // No output of its own: the embeddings are read as a whole.
        assert_eq!(header.bytes_read_per_token(), 296);
        assert!(!header.is_embedding_only());
    }

    #[test]
    fn what_is_read_for_a_token() {
        let tensors =
            [("token_embd.weight", 64), ("output.weight", 64), ("blk.0.ffn_up_exps.weight", 80)];
        let experts = [("moe.expert_count", 8), ("moe.expert_used_count", 2)];
        let header = read(&file("moe", &experts, &tensors)).unwrap();
        // The output, a quarter of the experts, one row of the embeddings.
        assert_eq!(header.bytes_read_per_token(), 256 + 80 + 128);
    }

    #[test]
    fn embedding_models_are_recognised() {
        for (architecture, extra) in [
            ("bert", vec![]),
            ("nomic-bert", vec![]),
            ("qwen3", vec![("qwen3.pooling_type", 3)]),
            ("gemma", vec![("gemma.attention.causal", 0)]),
        ] {
            assert!(read(&file(architecture, &extra, &[])).unwrap().is_embedding_only());
        }
        assert!(
            !read(&file("qwen3", &[("qwen3.pooling_type", 0)], &[])).unwrap().is_embedding_only()
        );
    }

    #[test]
    fn other_files_are_no_gguf() {
        for bytes in [&b""[..], b"GG", b"PK\x03\x04 and so on", &[0; 100]] {
            assert_eq!(read(bytes).unwrap_err(), HeaderError::NotGguf, "{bytes:?}");
        }
    }

    #[test]
    fn every_cut_of_the_header_is_noticed() {
        let bytes = file("llama", &[("llama.block_count", 2)], &[("output.weight", 16)]);
        let header = usize::try_from(read(&bytes).unwrap().data_offset).unwrap();
        for length in 4..header - 32 {
            assert_eq!(read(&bytes[..length]).unwrap_err(), HeaderError::Ends, "{length}");
        }
        let cut = Header::read(&bytes[..], bytes.len() as u64 - 40).unwrap();
        assert!(cut.expected_bytes() > bytes.len() as u64 - 40);
    }

    #[test]
    fn huge_counts_take_no_memory() {
        let mut bytes = file("llama", &[], &[]);
        bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read(&bytes).is_err());
        let mut bytes = file("llama", &[], &[]);
        bytes[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(read(&bytes), Err(HeaderError::Damaged(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = b"GGUF\x03\0\0\0".to_vec();
            bytes.extend(tail);
            let _ = read(&bytes);
        }

        #[test]
        fn no_flipped_byte_makes_it_panic(at in 0usize..200, to in any::<u8>()) {
            let mut bytes = file("llama", &[("llama.block_count", 2)], &[("output.weight", 16)]);
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(header) = read(&bytes) {
                let _ = (header.expected_bytes(), header.bytes_read_per_token());
            }
        }
    }
}
