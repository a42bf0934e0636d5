//! What the memory and the arithmetic of a machine allow: ceilings of decode and prefill.
//!
//! Ceilings are never clipped: a measurement above one means that a byte count is wrong, or that
//! several tokens came from one pass over the weights (speculative decoding).

use std::time::Duration;

/// What one decode step reads, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepBytes {
    /// Weights that a step streams: all tensors, less the embedding table where the output matrix
    /// is another one (a step reads one row of it). For mixtures, the experts that are used.
    pub weights: f64,
    /// Keys and values of one token of context.
    pub kv_per_token: f64,
}

/// Type of a cached key or value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvElement {
    /// Two bytes.
    F16,
    /// 32 values in 34 bytes.
    Q8_0,
    /// 32 values in 18 bytes.
    Q4_0,
}

impl KvElement {
    fn bytes(self) -> f64 {
        match self {
            Self::F16 => 2.0,
            Self::Q8_0 => 34.0 / 32.0,
            Self::Q4_0 => 18.0 / 32.0,
        }
    }
}

/// Bytes of keys and values for one token: L·G·(d_k + d_v)·bytes.
pub fn kv_bytes_per_token(
    layers: u64,
    kv_heads: u64,
    key_and_value_length: u64,
    element: KvElement,
) -> f64 {
    (layers * kv_heads * key_and_value_length) as f64 * element.bytes()
}

impl StepBytes {
    /// Tokens per second at a fixed context: bandwidth ÷ (W + KV·t).
    pub fn ceiling_at_context(&self, bandwidth_bytes_per_s: f64, context: u64) -> f64 {
        bandwidth_bytes_per_s / (self.weights + self.kv_per_token * context as f64)
    }

    /// Bytes read for the N − 1 decode steps of an answer of N tokens after a prompt of P:
    /// (N − 1)·W + KV·((N − 1)·P + N·(N − 1)/2).
    pub fn of_answer(&self, prompt: u64, output: u64) -> f64 {
        let (prompt, output) = (prompt as f64, output as f64);
        let steps = (output - 1.0).max(0.0);
        steps * self.weights + self.kv_per_token * (steps * prompt + output * steps / 2.0)
    }

    /// Tokens per second over a whole answer; `None` for fewer than two tokens.
    pub fn ceiling_of_answer(
        &self,
        bandwidth_bytes_per_s: f64,
        prompt: u64,
        output: u64,
    ) -> Option<f64> {
        let steps = output.checked_sub(1).filter(|steps| *steps > 0)?;
        Some(steps as f64 * bandwidth_bytes_per_s / self.of_answer(prompt, output))
    }

    /// Bytes per second that a decode speed amounts to, at the mean context of an answer.
    pub fn achieved_bandwidth(&self, decode_tps: f64, prompt: u64, output: u64) -> f64 {
        let mean_context = prompt as f64 + output as f64 / 2.0;
        decode_tps * (self.weights + self.kv_per_token * mean_context)
    }
}

/// The arithmetic of prefill, by the model's shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefillModel {
    /// Parameters in the matrices that every token goes through.
    pub matrix_params: f64,
    /// Parameters of the output matrix, which only the last token goes through.
    pub head_params: f64,
    /// Layers.
    pub layers: f64,
    /// Heads × head length.
    pub attention_width: f64,
}

impl PrefillModel {
    /// Operations for a prompt of n tokens: 2·P·n + 2·P_head + 2·L·d·n² (the causal half).
    pub fn flops(&self, tokens: u64) -> f64 {
        let n = tokens as f64;
        2.0 * self.matrix_params * n
            + 2.0 * self.head_params
            + 2.0 * self.layers * self.attention_width * n * n
    }

    /// Operations per second that a prefill of `tokens` in `time` amounts to.
    pub fn effective_flops(&self, tokens: u64, time: Duration) -> Option<f64> {
        (!time.is_zero()).then(|| self.flops(tokens) / time.as_secs_f64())
    }
}

/// The same from the parameter count alone: 2·P·n. The embedding and output tables are in P, and
/// work for one token at most: so it is about 10 % high for short prompts at 8 billion parameters,
/// and more for a smaller model.
pub fn simple_prefill_flops(params: f64, tokens: u64) -> f64 {
    2.0 * params * tokens as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::tests::assert_close;

    const LLAMA: StepBytes = StepBytes { weights: 15_009_857_536.0, kv_per_token: 131_072.0 };
    const BANDWIDTH: f64 = 273e9;

    #[test]
    fn bytes_of_the_cache() {
        assert_close(kv_bytes_per_token(32, 8, 256, KvElement::F16), 131_072.0);
        assert_close(kv_bytes_per_token(32, 8, 256, KvElement::Q8_0), 69_632.0);
    }

    #[test]
    fn decode_ceilings() {
        assert_close(BANDWIDTH / 16_060_522_496.0, 16.998201650537386);
        assert_close(LLAMA.ceiling_at_context(BANDWIDTH, 0), 18.18804737788019);
        assert_close(LLAMA.ceiling_at_context(BANDWIDTH, 2048), 17.868488328044755);
        assert_close(LLAMA.ceiling_at_context(BANDWIDTH, 8192), 16.973812508595092);
        assert_close(LLAMA.of_answer(41, 256), 3_833_162_219_520.0);
        assert_close(LLAMA.ceiling_of_answer(BANDWIDTH, 41, 256).unwrap(), 18.161245471295864);
        assert_close(LLAMA.of_answer(2000, 256), 3_898_638_581_760.0);
        assert_close(LLAMA.ceiling_of_answer(BANDWIDTH, 2000, 256).unwrap(), 17.856233282484222);
        assert_eq!(LLAMA.ceiling_of_answer(BANDWIDTH, 41, 1), None);
    }

    #[test]
    fn prefill_operations() {
        let llama = PrefillModel {
            matrix_params: 6_979_321_856.0,
            head_params: 525_336_576.0,
            layers: 32.0,
            attention_width: 4096.0,
        };
        let expected = [
            (41, 573_795_729_408.0),
            (512, 7_216_595_730_432.0),
            (2000, 28_966_914_097_152.0),
            (8192, 131_942_446_006_272.0),
        ];
        for (tokens, flops) in expected {
            assert_close(llama.flops(tokens), flops);
        }
        let effective = llama.effective_flops(2000, Duration::from_millis(1030)).unwrap();
        assert_close(effective / 1e12, 28.123217570050485);
    }
}
