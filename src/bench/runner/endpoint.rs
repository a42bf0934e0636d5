//! From a config to what a request has to know.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::bench::client::{
    BodyTemplate, Endpoint, EndpointError, EndpointKind, HttpVersion, Keep, Timeouts,
};
use crate::bench::config::{self, Config};
use crate::bench::load::{Arrivals, LevelSpec, Start};
use crate::bench::prompts;
use crate::bench::secrets::Secrets;

/// The endpoint of a target that answers under `base_url`.
///
/// # Errors
/// If the URL, a header or the certificates cannot be used.
pub fn endpoint(
    config: &Config,
    base_url: &str,
    secrets: &Secrets,
) -> Result<Endpoint, EndpointError> {
    let (target, work) = (&config.target, &config.workload);
    let body = BodyTemplate {
        kind: match target.endpoint {
            config::EndpointKind::Chat => EndpointKind::Chat,
            config::EndpointKind::Completions => EndpointKind::Completions,
        },
        model: target.model.as_str().to_owned(),
        max_tokens: work.max_tokens.get(),
        max_tokens_field: target.max_tokens_field.as_str().to_owned(),
        temperature: work.temperature.get(),
        ignore_eos: work.ignore_eos,
        extra_body: work.extra_body.clone(),
        omit_body: target.omit_body.clone(),
    };
    let mut endpoint = Endpoint::new(base_url, body)?;
    if let Some(key) = secrets.key() {
        endpoint = endpoint.bearer(key)?;
    }
    for (name, value) in secrets.headers() {
        endpoint = endpoint.secret_header(name, value)?;
    }
    if let Some(pem) = &target.ca_file {
        endpoint = endpoint.trust(pem)?;
    }
    endpoint.timeouts = Timeouts {
        connect: work.connect_timeout.0,
        first_token: work.first_token_timeout.0,
        stall: work.stall_timeout.0,
        request: work.request_timeout.0,
    };
    if work.http2 {
        endpoint.http_version = HttpVersion::Http2;
    }
    endpoint.keep = if work.save_text { Keep::Text } else { Keep::Hash };
    Ok(endpoint)
}

/// What one level is asked to do.
pub fn level_spec(config: &Config, concurrency: u32) -> LevelSpec {
    let work = &config.workload;
    let start = match (work.open_rate, work.start_mode) {
        (Some(rate), _) => Start::Open {
            rate: rate.get(),
            arrivals: match work.arrivals {
                config::Arrivals::Poisson => Arrivals::Poisson,
                config::Arrivals::Constant => Arrivals::Constant,
            },
            seed: work.seed,
        },
        (None, Some(config::StartMode::Simultaneous)) => Start::Simultaneous,
        (None, Some(config::StartMode::Staggered) | None) => Start::Staggered,
    };
    LevelSpec {
        concurrency,
        n_ok: work.requests_at(concurrency),
        warmup: work.warmup,
        max_attempts: work.max_attempts_at(concurrency),
        max_duration: work.max_duration.0,
        start,
        purse: None,
    }
}

/// Whether a prompt may come twice.
pub fn prompt_reuse(config: &Config) -> prompts::PromptReuse {
    match config.workload.prompt_reuse {
        config::PromptReuse::Forbid => prompts::PromptReuse::Forbid,
        config::PromptReuse::Allow => prompts::PromptReuse::Allow,
    }
}

/// A few tokens from the largest model on the slowest machine that is worth measuring.
const PROBE_DEADLINE: Duration = Duration::from_secs(10 * 60);

/// The same endpoint for a request of our own: so many tokens, the text kept.
pub fn for_probe(endpoint: &Endpoint, max_tokens: NonZeroU32, ignore_eos: bool) -> Endpoint {
    let mut probe = endpoint.clone();
    probe.body.max_tokens = max_tokens.get();
    probe.body.ignore_eos = ignore_eos;
    // A level may wait for ever if its config says so; a check of ours may not.
    let limit = probe.timeouts.request.unwrap_or(PROBE_DEADLINE);
    probe.timeouts.request = Some(limit.min(PROBE_DEADLINE));
    probe.keep = Keep::Text;
    probe
}
