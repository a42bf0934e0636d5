//! The lines that the server prints when it is ready.

use std::fmt;
use std::net::SocketAddr;

use super::inference::Tokenizer;

/// What is served, on what, and where. The last line is `listening on http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq)]
pub struct StartUp {
    lines: Vec<String>,
}

impl StartUp {
    /// What there is to say of a loaded model.
    /// `keyed` if requests need an API key.
    pub fn new(tokenizer: &dyn Tokenizer, address: SocketAddr, keyed: bool) -> Self {
        let (info, settings) = (tokenizer.info(), tokenizer.settings());
        let name = info.name.clone().unwrap_or_else(|| info.architecture.clone());
        let open = (!address.ip().is_loopback()).then(|| beyond_loopback(keyed).to_owned());
        let lines = [
            format!(
                "model: {name}, {} parameters, {}, {}",
                count(info.n_params),
                info.file_type,
                bytes(info.file_bytes)
            ),
            format!(
                "context: {}, KV cache {} in {}",
                context(settings.n_ctx, info.n_ctx_train),
                bytes(settings.kv_bytes),
                settings.kv_type
            ),
            format!(
                "device: {}, threads: {} (for prompts: {})",
                settings.device, settings.threads, settings.threads_batch
            ),
        ];
        let listening = format!("listening on http://{address}");
        Self { lines: lines.into_iter().chain(open).chain([listening]).collect() }
    }
}

impl fmt::Display for StartUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.lines.join("\n"))
    }
}

/// What it means to listen on an address that others reach.
fn beyond_loopback(keyed: bool) -> &'static str {
    if keyed {
        "open to the network, not to this machine alone: requests need the API key"
    } else {
        "open to the network, not to this machine alone, and without an API key (--api-key-env): \
         whoever reaches this address can use it"
    }
}

/// llama.cpp rounds a context up to a multiple of so many tokens.
const PADDED_TO: u32 = 256;

/// The size of the context, in tokens, beside the one that the model was trained for; 0 is unknown.
fn context(n_ctx: u32, n_ctx_train: u32) -> String {
    match n_ctx_train {
        0 => format!("{n_ctx} tokens"),
        trained if trained.next_multiple_of(PADDED_TO) < n_ctx => format!(
            "{n_ctx} tokens, more than the {trained} that the model was trained for: beyond those \
             its answers can be nonsense"
        ),
        trained => format!("{n_ctx} tokens (trained for {trained})"),
    }
}

/// A count with three digits and a letter: 135 M, 8.03 B.
fn count(n: u64) -> String {
    scaled(n, &["", " k", " M", " B", " T"])
}

/// Bytes with three digits and a unit: 271 MB.
fn bytes(n: u64) -> String {
    scaled(n, &[" B", " kB", " MB", " GB", " TB"])
}

fn scaled(n: u64, units: &[&str]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_beyond_the_trained_one_is_said() {
        assert_eq!(context(8192, 8192), "8192 tokens (trained for 8192)");
        assert_eq!(context(512, 0), "512 tokens");
        assert_eq!(context(8192, 8000), "8192 tokens (trained for 8000)", "padded by llama.cpp");
        let beyond = "8193 tokens, more than the 8192 that the model was trained for: beyond those \
                      its answers can be nonsense";
        assert_eq!(context(8193, 8192), beyond);
    }

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(count(134_515_008), "135 M");
        assert_eq!(count(8_030_261_248), "8.03 B");
        assert_eq!(bytes(98_362_432), "98.4 MB");
        assert_eq!(bytes(999_600), "1.00 MB");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(0), "0 B");
    }
}
