//! `spark-bench run`: one target that is already running, one results file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::BadInput;
use super::announce::announce;
use super::at_least_one;
use super::measuring::{Common, Session};
use crate::bench::config::target::max_tokens_field;
use crate::bench::config::values::{BaseUrl, Ladder, Name, NonNegative, Positive, Requests};
use crate::bench::config::{
    Arrivals, Config, EndpointKind, HardwareFacts, ModelFacts, Price, PromptReuse, Slo, StartMode,
    Target, TimeLimit, TimeSpan, Workload,
};
use crate::bench::plan::PlannedTarget;
use crate::bench::prompts::SentPrompts;
use crate::bench::runner::{Work, run_target};
use crate::bench::secrets::Secrets;

/// Flags of `spark-bench run`; what each means stands in docs/config-reference.md too.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scoreboard's target column.
    #[arg(long, value_name = "NAME")]
    target: Name,
    /// Where the API answers, up to and with /v1.
    #[arg(long, value_name = "URL")]
    base_url: BaseUrl,
    /// The model id to ask for.
    #[arg(long, value_name = "ID")]
    model: Name,
    /// Of the weights; "undisclosed" is a value.
    #[arg(long, value_name = "P")]
    precision: Name,
    /// What the weights are, whatever the id: groups scoreboard tables [default: the model id].
    #[arg(long, value_name = "NAME")]
    base_model: Option<Name>,
    /// Another model id that may answer; may be given more than once.
    #[arg(long, value_name = "ID")]
    accept_model: Vec<String>,
    /// What is new about this row.
    #[arg(long, value_name = "TEXT", default_value = "")]
    change: String,
    /// Where the client runs, for the reader.
    #[arg(long, value_name = "NAME")]
    client: Option<Name>,
    /// The prompts file [default: prompts/short.jsonl].
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Requests in flight, level by level [default: 1,4,16,64].
    #[arg(long, value_name = "LIST")]
    concurrency: Option<Ladder>,
    /// ok requests that each level needs [default: 200].
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU32>)]
    n: Option<NonZeroU32>,
    /// Most measured requests that a level sends [default: 3n].
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU32>)]
    max_attempts: Option<NonZeroU32>,
    /// Longest time for a level [default: none].
    #[arg(long, value_name = "TIME")]
    max_duration: Option<TimeLimit>,
    /// Requests before each level that no figure uses [default: 3].
    #[arg(long, value_name = "N", value_parser = super::whole_number::<u32>)]
    warmup: Option<u32>,
    /// Output tokens to ask for [default: 256].
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU32>)]
    max_tokens: Option<NonZeroU32>,
    /// Forbid the end of an answer before max-tokens.
    #[arg(long)]
    ignore_eos: bool,
    /// Sampling temperature [default: 0].
    #[arg(long, value_name = "T")]
    temperature: Option<NonNegative>,
    /// The NAME of the environment variable that holds the API key.
    #[arg(long, value_name = "VAR")]
    key_env: Option<String>,
    /// A further header from a variable, as HEADER=VAR; may be given more than once.
    #[arg(long, value_name = "HEADER=VAR")]
    header_env: Vec<String>,
    /// Which API [default: chat].
    #[arg(long, value_enum)]
    endpoint: Option<EndpointKind>,
    /// A file of PEM certificates to trust beside the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Longest wait for a connection: a duration or none [default: 10s].
    #[arg(long, value_name = "TIME")]
    connect_timeout: Option<TimeLimit>,
    /// Longest wait for the first text [default: none].
    #[arg(long, value_name = "TIME")]
    first_token_timeout: Option<TimeLimit>,
    /// Longest wait between two texts [default: 2m].
    #[arg(long, value_name = "TIME")]
    stall_timeout: Option<TimeLimit>,
    /// Longest time for a whole request [default: none].
    #[arg(long, value_name = "TIME")]
    request_timeout: Option<TimeLimit>,
    /// How the workers start [default: staggered, after a warm-up].
    #[arg(long, value_enum)]
    start_mode: Option<StartMode>,
    /// Open loop: requests per second, whatever is still in flight.
    #[arg(long, value_name = "R")]
    open_rate: Option<Positive>,
    /// Open loop: how arrivals are spread.
    #[arg(long, value_enum, requires = "open_rate")]
    arrivals: Option<Arrivals>,
    /// Open loop: seed of the arrivals [default: 0].
    #[arg(long, value_name = "N", requires = "open_rate", value_parser = super::whole_number::<u64>)]
    seed: Option<u64>,
    /// Shuffle the prompts with this seed [default: file order].
    #[arg(long, value_name = "N", value_parser = super::whole_number::<u64>)]
    shuffle_seed: Option<u64>,
    /// A gap between two texts that counts as a stutter [default: 200].
    #[arg(long, value_name = "MS")]
    stutter_ms: Option<Positive>,
    /// Whether a prompt may be sent twice [default: forbid].
    #[arg(long, value_enum)]
    prompt_reuse: Option<PromptReuse>,
    /// Merged into the body of every request; {request_uuid} in a string is a fresh UUID.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    extra_body: Option<Map<String, Value>>,
    /// A key of the body to leave out; may be given more than once.
    #[arg(long, value_name = "KEY")]
    omit_body: Vec<String>,
    /// What the API calls max_tokens.
    #[arg(long, value_name = "KEY")]
    max_tokens_field: Option<Name>,
    /// Time between two samples of the machine's counters [default: 100ms].
    #[arg(long, value_name = "TIME")]
    sample_period: Option<TimeSpan>,
    /// HTTP/2 instead of HTTP/1.1: by ALPN, or by prior knowledge without TLS.
    #[arg(long)]
    http2: bool,
    /// Keep each gap in the results file.
    #[arg(long)]
    save_gaps: bool,
    /// Keep each answer's text in the results file.
    #[arg(long)]
    save_text: bool,
    /// Keep the hardware samples in a file beside the results.
    #[arg(long)]
    save_series: bool,
    /// What a million prompt tokens cost there, in USD.
    #[arg(long, value_name = "USD", requires = "price_output")]
    price_input: Option<NonNegative>,
    /// What a million prompt tokens from the provider's cache cost [default: as the others].
    #[arg(long, value_name = "USD", requires = "price_input")]
    price_cached: Option<NonNegative>,
    /// What a million output tokens cost there, in USD.
    #[arg(long, value_name = "USD", requires = "price_input")]
    price_output: Option<NonNegative>,
    /// The model's tokenizer.json, to check the server's counts of prompt tokens with.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

fn json_object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("is no JSON object: {error}"))
}

/// Measures, writes the results file, prints table, scoreboard row and what they show.
///
/// # Errors
/// Bad flags, an unset key, or results that cannot be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let (config, common) = args.into_config()?;
    // For one target an unset key is a mistake, not a row to be skipped.
    Secrets::read(&config.target).map_err(|why| BadInput(why.text))?;
    common.make_out()?;
    super::measuring::block_on(async move {
        let mut session = Session::start(&common).await?;
        let work = Work { config, spec: None, repeat: 1, sent: SentPrompts::default() };
        let target = PlannedTarget { config: work.config.clone(), spec: None };
        announce(&session.harness, std::slice::from_ref(&target))?;
        let (levels, requests) = target.size();
        session.harness.progress.plan(levels, requests);
        session.measure_floor(work.config.workload.concurrency.levels()).await;
        let outcomes = run_target(&session.harness, &work).await?;
        for outcome in &outcomes {
            if outcome.file.failed.is_some() || outcome.file.skipped.is_some() {
                session.tell(outcome);
            }
        }
        session.answer(&outcomes)
    })
}

impl Args {
    fn price(&self) -> Option<Price> {
        Some(Price {
            input_per_mtok: self.price_input?,
            cached_per_mtok: self.price_cached,
            output_per_mtok: self.price_output?,
            date: None,
        })
    }

    fn headers_env(&self) -> Result<BTreeMap<String, String>, BadInput> {
        let pairs = self.header_env.iter().map(|pair| match pair.split_once('=') {
            Some((header, name)) => Ok((header.to_owned(), name.to_owned())),
            None => Err(BadInput(format!("--header-env {pair:?} is not HEADER=VAR"))),
        });
        pairs.collect()
    }

    fn into_config(self) -> Result<(Config, Common), BadInput> {
        let (price, headers_env) = (self.price(), self.headers_env()?);
        let target = Target {
            name: self.target,
            change: self.change,
            precision: self.precision,
            base_url: self.base_url,
            model: self.model,
            base_model: self.base_model,
            accept_models: self.accept_model,
            key_env: self.key_env.unwrap_or_default(),
            headers_env,
            endpoint: self.endpoint.unwrap_or_default(),
            price,
            omit_body: self.omit_body,
            max_tokens_field: self.max_tokens_field.unwrap_or_else(max_tokens_field),
            tokenizer: self.tokenizer,
            ca_file: self.ca_file,
        };
        let mut defaults = Workload::default();
        if self.open_rate.is_some() {
            defaults.concurrency = Ladder::one();
        }
        let workload = Workload {
            prompts: self.prompts.map_or(defaults.prompts, |path| vec![path]),
            concurrency: self.concurrency.unwrap_or(defaults.concurrency),
            requests: self.n.map_or(defaults.requests, Requests::each),
            max_attempts: self.max_attempts,
            max_duration: self.max_duration.unwrap_or(defaults.max_duration),
            warmup: self.warmup.unwrap_or(defaults.warmup),
            max_tokens: self.max_tokens.unwrap_or(defaults.max_tokens),
            ignore_eos: self.ignore_eos,
            temperature: self.temperature.unwrap_or(defaults.temperature),
            connect_timeout: self.connect_timeout.unwrap_or(defaults.connect_timeout),
            first_token_timeout: self.first_token_timeout.unwrap_or(defaults.first_token_timeout),
            stall_timeout: self.stall_timeout.unwrap_or(defaults.stall_timeout),
            request_timeout: self.request_timeout.unwrap_or(defaults.request_timeout),
            start_mode: self.start_mode,
            open_rate: self.open_rate,
            arrivals: self.arrivals.unwrap_or_default(),
            seed: self.seed.unwrap_or(defaults.seed),
            shuffle_seed: self.shuffle_seed,
            prompt_reuse: self.prompt_reuse.unwrap_or_default(),
            stutter_ms: self.stutter_ms.unwrap_or(defaults.stutter_ms),
            extra_body: self.extra_body.unwrap_or_default(),
            http2: self.http2,
            save_gaps: self.save_gaps,
            save_text: self.save_text,
            save_series: self.save_series,
            client: self.client.unwrap_or(defaults.client),
            ..Workload::default()
        };
        let config = Config {
            path: None,
            text: None,
            target,
            engine: None,
            workload,
            hardware: HardwareFacts {
                sample_period: self.sample_period,
                ..HardwareFacts::default()
            },
            model: ModelFacts::default(),
            slo: Slo::default(),
        };
        config.check().map_err(|(keys, text)| {
            let flag = keys.last().map_or("", |key| key).replace('_', "-");
            BadInput(format!("--{flag}: {text}"))
        })?;
        Ok((config, self.common))
    }
}
