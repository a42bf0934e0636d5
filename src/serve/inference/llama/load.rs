//! From a file to a model that is ready to answer.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use llama_cpp_2::list_llama_ggml_backend_devices;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::{LlamaBackendDevice, LlamaBackendDeviceType};

use super::super::gauges::StopSignal;
use super::super::gguf::Header;
use super::super::load_error::LoadError;
use super::super::model::{AppliedSettings, Model, ModelInfo, Output, Specials, TokenId};
use super::check::{self, Files};
use super::memory::{self, Needed, Shape};
use super::model::LlamaCpp;
use super::options::{FlashAttn, KvType, LoadOptions, Mmap};
use super::said;
use super::sys::{self, Context, ContextSettings};
use super::threads::physical_cores;
use super::tokenizer::{LlamaTokenizer, piece};

/// More than the machines have that this is for (ggml's own `GGML_MAX_N_THREADS`). What ggml does
/// with far too many ends the process.
const THREADS_MAX: u32 = 512;
/// What stands before the reason in llama.cpp's log.
const WHY: &str = "error loading model:";

/// Loads a model and computes one token with it, so that the first request finds it warm.
///
/// It belongs on the inference thread. It gives up when `stop` says so.
///
/// # Errors
/// [`LoadError`].
pub fn load(options: &LoadOptions, stop: &Arc<StopSignal>) -> Result<LlamaCpp, LoadError> {
    let backend = backend();
    let files = check::check(&options.path)?;
    check_settings(options)?;
    tracing::info!("loading {}; /health answers 503 until it is ready", options.path.display());
    let place = Place::choose(options, &files.header);
    let n_ctx_train = files.header.of_architecture("context_length").unwrap_or(0);
    let shape = Shape {
        n_ctx: options.n_ctx(n_ctx_train),
        n_ubatch: options.n_ubatch(),
        kv_type: options.kv_type,
        flash_attn: options.flash_attn,
    };
    let needed = memory::needed(&files.header, shape);
    place.check_memory(needed)?;
    let model = Arc::new(load_weights(backend, options, &place, needed, stop)?);
    if !sys::is_decoder_only(&model) {
        let reason = "a model with an encoder, which this server can't run".to_owned();
        return Err(LoadError::Unsupported { path: options.path.clone(), reason });
    }
    said::take_buffers();
    said::take_flash_attn();
    let threads = options.threads.unwrap_or_else(|| physical_cores().min(THREADS_MAX));
    let threads_batch = options.threads_batch.unwrap_or(threads);
    let context = context(&model, options, shape, (threads, threads_batch), &place, needed)?;
    let info = info(&model, options, &files);
    let settings = AppliedSettings {
        n_ctx: context.n_ctx(),
        n_batch: context.n_batch(),
        n_ubatch: context.n_ubatch(),
        threads,
        threads_batch,
        gpu_layers: place.gpu_layers,
        device: place.device.clone(),
        flash_attn: said::take_flash_attn().unwrap_or(options.flash_attn.name()).to_owned(),
        kv_type: options.kv_type.name().to_owned(),
        mmap: place.mmap,
        kv_bytes: needed.kv,
        kv_bytes_per_token: memory::kv_bytes_per_token(&files.header, options.kv_type),
        compute_bytes: needed.compute,
        prompt_cache: options.prompt_cache,
        engine: format!("llama.cpp {} ({})", engine_version(), backends_in_use().join(", ")),
    };
    warm_up(context, LlamaTokenizer { model, info, settings }, stop)
}

/// llama.cpp's version.
pub fn engine_version() -> String {
    sys::version()
}

/// The backends that are compiled in, whether they found a device or not.
pub fn backends() -> Vec<String> {
    backend();
    sys::backends()
}

/// The backends that found a device.
fn backends_in_use() -> Vec<String> {
    let devices = list_llama_ggml_backend_devices().into_iter();
    let names: BTreeSet<String> = devices.map(|device| device.backend).collect();
    names.into_iter().collect()
}

/// llama.cpp's global state: made once, and kept until the process ends.
fn backend() -> &'static LlamaBackend {
    static BACKEND: OnceLock<LlamaBackend> = OnceLock::new();
    BACKEND.get_or_init(|| {
        sys::route_stderr();
        sys::route_log();
        LlamaBackend::init().expect("nobody else in this process initialises it")
    })
}

fn check_settings(options: &LoadOptions) -> Result<(), LoadError> {
    let counts = [
        ("ctx", options.ctx),
        ("threads", options.threads),
        ("threads-batch", options.threads_batch),
        ("batch", options.batch),
        ("ubatch", options.ubatch),
    ];
    let most = u32::try_from(i32::MAX).expect("it is positive");
    for (name, value) in counts {
        if value.is_some_and(|value| value == 0 || value > most) {
            return Err(LoadError::Settings(format!("{name} must be between 1 and {most}")));
        }
    }
    for (name, value) in [("threads", options.threads), ("threads-batch", options.threads_batch)] {
        if value.is_some_and(|value| value > THREADS_MAX) {
            return Err(LoadError::Settings(format!("{name} must be at most {THREADS_MAX}")));
        }
    }
    if options.kv_type == KvType::Q8_0 && options.flash_attn == FlashAttn::Off {
        let reason = "a KV cache of type q8_0 needs flash attention".to_owned();
        return Err(LoadError::Settings(reason));
    }
    Ok(())
}

/// Where the model goes.
struct Place {
    device: String,
    gpus: Vec<LlamaBackendDevice>,
    gpu_layers: u32,
    /// The share of the model that is on GPUs, in 1/1000.
    gpu_permille: u64,
    mmap: bool,
}

impl Place {
    fn choose(options: &LoadOptions, header: &Header) -> Self {
        use LlamaBackendDeviceType::{Gpu, IntegratedGpu};
        let mut gpus = list_llama_ggml_backend_devices();
        gpus.retain(|device| matches!(device.device_type, Gpu | IntegratedGpu));
        // llama.cpp uses integrated GPUs only where there are no others.
        if gpus.iter().any(|device| device.device_type == Gpu) {
            gpus.retain(|device| device.device_type == Gpu);
        }
        // The output layer counts as one.
        let n_layer = header.of_architecture("block_count").unwrap_or(0).saturating_add(1);
        let n_layer = u32::try_from(n_layer).unwrap_or(u32::MAX);
        let asked = options.gpu_layers.unwrap_or(n_layer).min(n_layer);
        let gpu_layers = if gpus.is_empty() { 0 } else { asked };
        if gpu_layers == 0 {
            gpus.clear();
        }
        let integrated = gpus.iter().any(|device| device.device_type == IntegratedGpu);
        let mmap = match options.mmap {
            Mmap::On => true,
            Mmap::Off => false,
            Mmap::Auto => !integrated,
        };
        let names: Vec<&str> = gpus.iter().map(|device| device.description.as_str()).collect();
        let device = if gpus.is_empty() { "CPU".to_owned() } else { names.join(", ") };
        let gpu_permille = u64::from(gpu_layers) * 1000 / u64::from(n_layer.max(1));
        Self { device, gpus, gpu_layers, gpu_permille, mmap }
    }

    /// Whether there is room on the GPUs for their share and in the machine's memory for the rest.
    fn check_memory(&self, needed: Needed) -> Result<(), LoadError> {
        let share = |permille: u64| {
            let part = |bytes: u64| bytes / 1000 * permille;
            let total = part(needed.weights).saturating_add(part(needed.kv));
            if permille == 0 { 0 } else { total.saturating_add(needed.compute) }
        };
        let free = self.gpus.iter().map(|device| device.memory_free as u64).sum();
        let on_gpus = share(self.gpu_permille);
        if on_gpus > free {
            return Err(self.does_not_fit(on_gpus, free));
        }
        let on_cpu = share(1000 - self.gpu_permille.min(1000));
        match memory::available() {
            Some(available) if on_cpu > available => Err(LoadError::DoesNotFit {
                needed_bytes: on_cpu,
                available_bytes: available,
                device: "CPU".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The estimate was too low: llama.cpp could not allocate what it needed.
    fn out_of_memory(&self, needed: Needed) -> LoadError {
        let free = match self.gpus.as_slice() {
            [] => memory::available().unwrap_or(0),
            gpus => gpus.iter().map(|device| device.memory_free as u64).sum(),
        };
        self.does_not_fit(needed.total(), free)
    }

    fn does_not_fit(&self, needed_bytes: u64, available_bytes: u64) -> LoadError {
        LoadError::DoesNotFit { needed_bytes, available_bytes, device: self.device.clone() }
    }
}

fn load_weights(
    backend: &LlamaBackend,
    options: &LoadOptions,
    place: &Place,
    needed: Needed,
    stop: &Arc<StopSignal>,
) -> Result<LlamaModel, LoadError> {
    let watched = Arc::clone(stop);
    let params = LlamaModelParams::default()
        .with_n_gpu_layers(place.gpu_layers)
        .with_use_mmap(place.mmap)
        .with_progress_callback(move |_| !watched.is_draining());
    said::take_errors();
    LlamaModel::load_from_file(backend, &options.path, &params).map_err(|error| {
        if stop.is_draining() {
            return LoadError::Cancelled;
        }
        let errors = said::take_errors();
        if errors.iter().any(|text| is_out_of_memory(text)) {
            return place.out_of_memory(needed);
        }
        let reason = reason(&errors).unwrap_or_else(|| error.to_string());
        LoadError::Unsupported { path: options.path.clone(), reason }
    })
}

/// Why llama.cpp refuses a model, of what it logged: the last line only says that it does.
fn reason(errors: &[String]) -> Option<String> {
    let why = errors.iter().find_map(|text| Some(text.split_once(WHY)?.1.trim().to_owned()));
    why.or_else(|| errors.last().cloned())
}

fn is_out_of_memory(reason: &str) -> bool {
    ["allocat", "out of memory"].iter().any(|words| reason.contains(words))
}

fn context(
    model: &Arc<LlamaModel>,
    options: &LoadOptions,
    shape: Shape,
    (threads, threads_batch): (u32, u32),
    place: &Place,
    needed: Needed,
) -> Result<Context, LoadError> {
    let count = |n: u32| i32::try_from(n).expect("checked with the settings");
    let settings = ContextSettings {
        n_ctx: shape.n_ctx,
        n_batch: options.n_batch(),
        n_ubatch: options.n_ubatch(),
        threads: count(threads),
        threads_batch: count(threads_batch),
        flash_attn: options.flash_attn.raw(),
        kv_type: options.kv_type.raw(),
    };
    said::take_errors();
    let context = Context::new(model, settings).ok_or_else(|| {
        let errors = said::take_errors();
        if errors.iter().any(|text| is_out_of_memory(text)) {
            return place.out_of_memory(needed);
        }
        LoadError::Settings(reason(&errors).unwrap_or_else(|| "no context".to_owned()))
    })?;
    if !context.has_memory() {
        let reason = "a model without a KV cache, which generates no text".to_owned();
        return Err(LoadError::Unsupported { path: options.path.clone(), reason });
    }
    Ok(context)
}

/// Computes one token: it makes llama.cpp allocate what it needs and reads the weights once.
fn warm_up(
    context: Context,
    tokenizer: LlamaTokenizer,
    stop: &Arc<StopSignal>,
) -> Result<LlamaCpp, LoadError> {
    let token = tokenizer.info.bos.unwrap_or(0);
    let mut model = LlamaCpp::new(context, tokenizer);
    let failed = |error: super::super::model::ModelError| match stop.is_draining() {
        true => LoadError::Cancelled,
        false => LoadError::Engine(format!("the first token failed: {error}")),
    };
    model.eval(&[token], Output::Logits, &|| stop.is_draining()).map_err(failed)?;
    model.rewind(0).map_err(failed)?;
    let buffers = said::take_buffers();
    model.set_buffers(buffers);
    Ok(model)
}

fn info(model: &Arc<LlamaModel>, options: &LoadOptions, files: &Files) -> ModelInfo {
    let vocab = model.vocab();
    let n_vocab = vocab.n_tokens();
    let known = |id: TokenId| (0..n_vocab).contains(&id).then_some(id);
    let spelling = |id: Option<TokenId>| {
        let mut bytes = Vec::new();
        if let Some(id) = id {
            piece(model, id, Specials::Recognise, &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (bos, eos) = (known(vocab.bos().0), known(vocab.eos().0));
    let meta = |key: &str| model.meta_val_str(key).ok().filter(|text| !text.is_empty());
    ModelInfo {
        path: options.path.clone(),
        name: meta("general.name"),
        architecture: files.header.architecture().to_owned(),
        file_type: sys::file_type(model),
        file_bytes: files.bytes,
        size_bytes: model.size(),
        n_params: model.n_params(),
        n_layer: model.n_layer(),
        n_embd: u32::try_from(model.n_embd()).unwrap_or(0),
        n_head: model.n_head(),
        n_head_kv: model.n_head_kv(),
        n_ctx_train: model.n_ctx_train(),
        n_vocab: u32::try_from(n_vocab).unwrap_or(0),
        bytes_read_per_token: files.header.bytes_read_per_token(),
        chat_template: meta("tokenizer.chat_template"),
        bos,
        eos,
        bos_text: spelling(bos),
        eos_text: spelling(eos),
        adds_bos: vocab.should_add_bos(),
        eog: vocab.tokens().filter(|&token| vocab.is_eog(token)).map(|token| token.0).collect(),
        longest_piece_bytes: longest_piece(model, n_vocab),
    }
}

/// The length in bytes of the longest token.
fn longest_piece(model: &LlamaModel, n_vocab: i32) -> u32 {
    let mut bytes = Vec::new();
    let mut longest = 1;
    for id in 0..n_vocab {
        bytes.clear();
        piece(model, id, Specials::Recognise, &mut bytes);
        longest = longest.max(bytes.len());
    }
    u32::try_from(longest).unwrap_or(u32::MAX)
}

impl LlamaCpp {
    /// What llama.cpp said of its buffers is better than our estimate, unless both are the same but
    /// for the rounding in its log.
    fn set_buffers(&mut self, buffers: said::Buffers) {
        let settings = &mut self.tokenizer_mut().settings;
        if buffers.kv > 0 && buffers.kv.abs_diff(settings.kv_bytes) > said::LOGGED_TO {
            settings.kv_bytes = buffers.kv;
        }
        if buffers.compute > 0 {
            settings.compute_bytes = buffers.compute;
        }
    }
}
