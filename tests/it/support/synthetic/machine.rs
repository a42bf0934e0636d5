//! What a synthetic run says of itself, its host and its hardware.

use spark::results::record::{
    ConfigText, Gpu, GpuProcess, Hardware, HarnessUsage, Host, HostGpu, HostUsage, Meta,
    ServerMeta, ServerUsage,
};

use super::{Machine, Scenario};

impl Scenario {
    pub(super) fn meta(&self) -> Meta {
        Meta {
            target: self.target.into(),
            base_url: "http://127.0.0.1:8080/v1".into(),
            model: "llama-3.1-8b".into(),
            base_model: Some("Llama 3.1 8B Instruct".into()),
            precision: self.precision.into(),
            change: self.change.into(),
            git_sha: "3f2c9e1".into(),
            git_dirty: Some(false),
            date: self.date.into(),
            max_tokens: self.max_tokens.into(),
            ignore_eos: true,
            prompts: format!(
                "prompts/{}.jsonl",
                if self.n_prompt < 1_000 { "short" } else { "long" }
            ),
            prompts_sha256: Some("5be1".repeat(16)),
            n: self.n.into(),
            warmup: 1,
            client: "local".into(),
            harness_version: Some("0.1.0".into()),
            argv: ["spark-bench", "matrix", "configs/desk.toml"].map(str::to_owned).to_vec(),
            config: Some(ConfigText {
                path: Some("configs/desk.toml".into()),
                text: Some(format!("[target]\nname = \"{}\"\n", self.target)),
                sha256: "ab".repeat(32),
                effective: None,
            }),
            stutter_ms: Some(200.0),
            protocol: Some("http/1.1".into()),
            server: Some(ServerMeta {
                engine: Some("synthetic".into()),
                version: Some("1.2.3".into()),
                command: ["synthetic", "--port", "8080"].map(str::to_owned).to_vec(),
                ..ServerMeta::default()
            }),
            host: Some(self.host()),
            ..Meta::default()
        }
    }

    fn host(&self) -> Host {
        let gpu = |name: &str, power| HostGpu {
            name: Some(name.into()),
            power_limit_w: power,
            ..HostGpu::default()
        };
        let gpus = match self.machine {
            Machine::DiscreteGpu => vec![gpu("NVIDIA H100", Some(700.0))],
            Machine::Gb10 => vec![gpu("NVIDIA GB10", None)],
            Machine::CpuOnly | Machine::Remote => Vec::new(),
        };
        Host {
            hostname_hash: Some("0a1b2c3d4e5f".into()),
            os: Some("Debian 13".into()),
            kernel: Some("6.12".into()),
            arch: Some("x86_64".into()),
            cpu: Some("A CPU".into()),
            cores_physical: Some(2),
            cores_logical: Some(2),
            memory_total_bytes: Some(25_000_000_000),
            gpus,
            ..Host::default()
        }
    }

    pub(super) fn hardware(&self, concurrency: u32) -> Hardware {
        let load = f64::from(concurrency.min(16));
        let gpu = Gpu {
            name: Some("NVIDIA H100".into()),
            util_pct_mean: Some(88.0 + load / 2.0),
            util_pct_max: Some(100.0),
            power_w_mean: Some(220.0 + 9.0 * load),
            power_w_max: Some(420.0),
            sm_clock_mhz_mean: Some(1_755.0),
            sm_clock_mhz_min: Some(1_410.0),
            sm_clock_mhz_limit: Some(1_980.0),
            memory_clock_mhz_mean: Some(2_619.0),
            temp_c_max: Some(51.0),
            memory_used_bytes_max: Some(17_200_000_000),
            memory_total_bytes: Some(85_000_000_000),
            energy_j: Some(9_000.0),
            used_by_server: Some(true),
            processes: vec![GpuProcess {
                pid: 7,
                memory_bytes: Some(16_900_000_000),
                ours: true,
                ..GpuProcess::default()
            }],
            ..Gpu::default()
        };
        let gb10 = Gpu {
            name: Some("NVIDIA GB10".into()),
            memory_clock_mhz_mean: None,
            memory_used_bytes_max: None,
            memory_total_bytes: None,
            sm_clock_mhz_limit: None,
            power_w_mean: Some(54.0),
            power_w_max: Some(61.0),
            ..gpu.clone()
        };
        let (gpus, gpu_reason) = match self.machine {
            Machine::DiscreteGpu => (vec![gpu], None),
            Machine::Gb10 => (vec![gb10], None),
            Machine::CpuOnly => (Vec::new(), Some("no NVML library on this machine".to_owned())),
            Machine::Remote => (Vec::new(), Some("the server runs elsewhere".to_owned())),
        };
        let local = self.machine != Machine::Remote;
        Hardware {
            joules_per_output_token: (!gpus.is_empty()).then_some(14.2 / load),
            energy_source: (!gpus.is_empty()).then(|| "counter".to_owned()),
            gpus,
            gpu_reason,
            samples: 240,
            period_ms_p50: Some(100.1),
            period_ms_max: Some(131.0),
            coverage: Some(0.998),
            server: local.then_some(ServerUsage {
                cpu_s: Some(21.5),
                rss_bytes_max: Some(2_100_000_000),
                ..ServerUsage::default()
            }),
            harness: Some(HarnessUsage {
                cpu_s: Some(0.31),
                rss_bytes_max: Some(31_000_000),
                loop_lag_ms_p99: Some(0.4),
            }),
            host: Some(HostUsage {
                cpu_pct_mean: Some(if self.machine == Machine::CpuOnly { 97.0 } else { 12.0 }),
                mem_available_bytes_min: Some(19_000_000_000),
                ..HostUsage::default()
            }),
            ..Hardware::default()
        }
    }
}
