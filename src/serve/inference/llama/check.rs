//! What can be known of a file before it is loaded: whether it is one that can be served.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::super::gguf::{Header, HeaderError};
use super::super::load_error::LoadError;

/// llama.cpp's naming has five digits for them, and its metadata 16 bits.
const SHARDS_MAX: u64 = u16::MAX as u64;

/// A model on disk, of one file or several.
pub(super) struct Files {
    /// Metadata of the first file, tensors of all.
    pub(super) header: Header,
    /// Bytes of all files together.
    pub(super) bytes: u64,
}

/// Reads the headers and refuses what can't be served.
///
/// # Errors
/// [`LoadError::Missing`], [`LoadError::Unreadable`], [`LoadError::NotGguf`],
/// [`LoadError::Truncated`], [`LoadError::EmbeddingOnly`], [`LoadError::Unsupported`].
pub(super) fn check(path: &Path) -> Result<Files, LoadError> {
    let (mut header, mut bytes) = check_one(path)?;
    for shard in other_shards(path, &header)? {
        let (other, other_bytes) = check_one(&shard)?;
        header.tensors.extend(other.tensors);
        bytes += other_bytes;
    }
    if header.is_embedding_only() {
        let architecture = header.architecture().to_owned();
        return Err(LoadError::EmbeddingOnly { path: path.to_owned(), architecture });
    }
    if header.architecture().is_empty() || header.tensors.is_empty() {
        let reason = "a GGUF file without a model in it".to_owned();
        return Err(LoadError::Unsupported { path: path.to_owned(), reason });
    }
    Ok(Files { header, bytes })
}

fn check_one(path: &Path) -> Result<(Header, u64), LoadError> {
    let owned = || path.to_owned();
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::Missing { path: owned() },
        _ => LoadError::Unreadable { path: owned(), reason: error.to_string() },
    };
    let file = File::open(path).map_err(refused)?;
    let meta = file.metadata().map_err(refused)?;
    if !meta.is_file() {
        let reason = "not a regular file".to_owned();
        return Err(LoadError::Unreadable { path: owned(), reason });
    }
    let header = Header::read(BufReader::new(file), meta.len()).map_err(|error| match error {
        HeaderError::NotGguf => LoadError::NotGguf { path: owned() },
        HeaderError::Ends => LoadError::Truncated {
            path: owned(),
            expected_bytes: meta.len() + 1,
            actual_bytes: meta.len(),
        },
        HeaderError::Damaged(_) => {
            LoadError::Unsupported { path: owned(), reason: error.to_string() }
        }
        HeaderError::Io(reason) => LoadError::Unreadable { path: owned(), reason },
    })?;
    if meta.len() < header.expected_bytes() {
        return Err(LoadError::Truncated {
            path: owned(),
            expected_bytes: header.expected_bytes(),
            actual_bytes: meta.len(),
        });
    }
    Ok((header, meta.len()))
}

/// The second and later files of a model that is split, by llama.cpp's naming.
fn other_shards(path: &Path, header: &Header) -> Result<Vec<PathBuf>, LoadError> {
    let count = header.integer("split.count").unwrap_or(1);
    if count <= 1 {
        return Ok(Vec::new());
    }
    let unsupported = |reason: String| LoadError::Unsupported { path: path.to_owned(), reason };
    if count > SHARDS_MAX {
        return Err(unsupported(format!("it says that it is one of {count} files")));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let first = format!("-00001-of-{count:05}.gguf");
    let Some(stem) = name.strip_suffix(&first) else {
        return Err(unsupported(format!("not the first of {count} files: it is named …{first}")));
    };
    let shard = |number: u64| path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf"));
    Ok((2..=count).map(shard).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_kind_of_bad_file_has_its_own_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        assert!(matches!(check(&path), Err(LoadError::Missing { .. })));
        assert!(matches!(check(folder.path()), Err(LoadError::Unreadable { .. })));
        fs::write(&path, "PK and more").unwrap();
        assert!(matches!(check(&path), Err(LoadError::NotGguf { .. })));
        fs::write(&path, b"GGUF\x03\0\0\0\x01").unwrap();
        assert!(matches!(check(&path), Err(LoadError::Truncated { .. })));
        let empty = [b"GGUF\x03\0\0\0".as_slice(), &[0; 16]].concat();
        fs::write(&path, empty).unwrap();
        assert!(matches!(check(&path), Err(LoadError::Unsupported { .. })));
    }

    #[test]
    fn a_number_of_files_that_cannot_be_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let count = i64::MAX as u64;
        let path = folder.path().join(format!("model-00001-of-{count:05}.gguf"));
        let key = "split.count";
        let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
        file.extend((key.len() as u64).to_le_bytes());
        file.extend(key.as_bytes());
        file.extend(10_u32.to_le_bytes()); // An unsigned integer of 64 bits.
        file.extend(count.to_le_bytes());
        fs::write(&path, file).unwrap();
        let error = check(&path).err().expect("it is refused").to_string();
        assert!(error.contains("one of 9223372036854775807 files"), "{error}");
    }
}
