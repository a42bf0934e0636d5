//! "Where each one wins": what a request would take, from measured rates. The report's sliders and
//! `spark-bench predict` both show these formulas.
//!
//! - network = rounds · RTT, where the request's bytes double with each round from 10 segments on
//! - handshake = 0 (kept-alive), 1 RTT (TCP) or 2 RTT (TCP and TLS 1.3)
//! - prefill = floor + prompt ÷ prefill rate
//! - decode = (output − 1) ÷ decode rate · (1 + slowdown · (c − 1))
//! - queue = share · (c − 1) · (prefill + decode alone): share 1 is Little's law for a server that
//!   does one request at a time
//! - TTFT = network + handshake + queue + prefill; total = TTFT + decode

/// Bytes of a prompt token in English text, JSON included.
pub const BYTES_PER_TOKEN: f64 = 4.5;
/// What TCP sends before the first acknowledgement: ten segments of 1,460 bytes.
pub const FIRST_ROUND_BYTES: f64 = 14_600.0;

/// What was measured of a target, or assumed where it could not be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Seconds of a prefill that do not depend on the prompt's length.
    pub prefill_floor_s: f64,
    /// Prompt tokens per second beyond that.
    pub prefill_tps: f64,
    /// Output tokens per second of a stream that is alone.
    pub decode_tps: f64,
    /// How much of another request's whole time a request waits for it: 1 serial, 0 parallel.
    pub queue_share: f64,
    /// How much slower each other stream makes a stream, as a share of its time per token.
    pub decode_slowdown: f64,
    /// Round trips of a handshake: 1 for TCP, 2 with TLS.
    pub handshake_rounds: f64,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Prompt tokens.
    pub prompt: f64,
    /// Output tokens.
    pub output: f64,
    /// Round trip to the server, seconds.
    pub rtt_s: f64,
    /// Requests in flight, this one included.
    pub concurrency: f64,
    /// New connections per request: 1 for a first call, 0 for a kept-alive one.
    pub handshakes: f64,
}

/// Where the time of one request goes, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breakdown {
    /// The request there and the first token back.
    pub network_s: f64,
    /// TCP and TLS.
    pub handshake_s: f64,
    /// Waiting for others.
    pub queue_s: f64,
    /// Reading the prompt.
    pub prefill_s: f64,
    /// Writing the answer, the first token aside.
    pub decode_s: f64,
}

impl Breakdown {
    /// Time to first token.
    pub fn ttft_s(&self) -> f64 {
        self.network_s + self.handshake_s + self.queue_s + self.prefill_s
    }

    /// Time to the last token.
    pub fn total_s(&self) -> f64 {
        self.ttft_s() + self.decode_s
    }
}

/// Network rounds that a request of so many prompt tokens needs on a connection that was idle.
pub fn rounds(prompt: f64) -> f64 {
    (prompt * BYTES_PER_TOKEN / FIRST_ROUND_BYTES + 1.0).log2().ceil().max(1.0)
}

/// Where the time of a request would go.
pub fn breakdown(rates: &Rates, ask: &Ask) -> Breakdown {
    let others = (ask.concurrency - 1.0).max(0.0);
    let prefill_s = rates.prefill_floor_s + ask.prompt / rates.prefill_tps;
    let alone_s = (ask.output - 1.0).max(0.0) / rates.decode_tps;
    Breakdown {
        network_s: rounds(ask.prompt) * ask.rtt_s,
        handshake_s: ask.handshakes * rates.handshake_rounds * ask.rtt_s,
        queue_s: rates.queue_share * others * (prefill_s + alone_s),
        prefill_s,
        decode_s: alone_s * (1.0 + rates.decode_slowdown * others),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIAL: Rates = Rates {
        prefill_floor_s: 0.1,
        prefill_tps: 2_000.0,
        decode_tps: 17.0,
        queue_share: 1.0,
        decode_slowdown: 0.0,
        handshake_rounds: 1.0,
    };
    const ASK: Ask =
        Ask { prompt: 200.0, output: 256.0, rtt_s: 0.04, concurrency: 1.0, handshakes: 0.0 };

    #[test]
    fn alone_there_is_no_queue_and_every_part_is_its_formula() {
        let parts = breakdown(&SERIAL, &ASK);
        assert_eq!((parts.queue_s, parts.handshake_s), (0.0, 0.0));
        // 0.1 + 200 / 2,000; 255 / 17; one round of 40 ms.
        assert!((parts.prefill_s - 0.2).abs() < 1e-12);
        assert!((parts.decode_s - 15.0).abs() < 1e-12);
        assert!((parts.total_s() - 15.24).abs() < 1e-12);
    }

    #[test]
    fn a_serial_server_makes_each_wait_for_all_others() {
        let parts = breakdown(&SERIAL, &Ask { concurrency: 16.0, ..ASK });
        // 15 others of 15.2 s each.
        assert!((parts.queue_s - 228.0).abs() < 1e-9);
        let shared = Rates { queue_share: 0.0, decode_slowdown: 0.01, ..SERIAL };
        let parts = breakdown(&shared, &Ask { concurrency: 16.0, ..ASK });
        assert_eq!(parts.queue_s, 0.0);
        assert!((parts.decode_s - 15.0 * 1.15).abs() < 1e-9);
    }

    #[test]
    fn long_prompts_need_more_rounds_and_a_first_call_a_handshake() {
        assert_eq!([41.0, 2_000.0, 4_096.0, 32_000.0].map(rounds), [1.0, 1.0, 2.0, 4.0]);
        let tls = Rates { handshake_rounds: 2.0, ..SERIAL };
        let parts = breakdown(&tls, &Ask { handshakes: 1.0, ..ASK });
        assert!((parts.handshake_s - 0.08).abs() < 1e-12);
    }
}
