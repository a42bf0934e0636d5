//! `spark-bench crossover`: from which prompt length on does one target's first token come sooner?
//!
//! It measures two configs over a sweep of prompt lengths, or reads results whose prompts differ in
//! length: each measured c = 1 request is a point, its length by the server's own count.

mod plot;
mod sweep;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::measuring::{Common, block_on};
use super::{BadInput, answer, at_least_one, read_runs, replace_file};
use crate::analyse::crossover::Answer;
use crate::bench::config::engines::ENGINES_FILE_NAME;
use crate::exit_codes;
use crate::report::crossover::{Fitted, Found, find, points, sentence, svg_file, winner};
use crate::results::brief::Gaps;
use crate::results::store::StoredRun;

/// Flags of `spark-bench crossover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One target: a config (TOML) to measure, or results with prompts of several lengths.
    #[arg(long, required = true, num_args = 1.., value_name = "CONFIG|RESULTS")]
    a: Vec<PathBuf>,
    /// The other.
    #[arg(long, required = true, num_args = 1.., value_name = "CONFIG|RESULTS")]
    b: Vec<PathBuf>,
    /// Prompt lengths to measure, in tokens by the server's own count.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',',
        default_values_t = [512, 1024, 2048, 3072, 4096, 6144].map(tokens),
        value_parser = at_least_one::<NonZeroU32>)]
    lengths: Vec<NonZeroU32>,
    /// Requests of each length for each target; half of them before the other target, half after
    /// it (A B B A).
    #[arg(long, value_name = "N", default_value_t = tokens(10),
        value_parser = at_least_one::<NonZeroU32>)]
    n: NonZeroU32,
    /// Output tokens of each request.
    #[arg(long, value_name = "N", default_value_t = tokens(8),
        value_parser = at_least_one::<NonZeroU32>)]
    output_tokens: NonZeroU32,
    /// The engines file [default: engines.toml beside each config].
    #[arg(long, value_name = "FILE")]
    engines: Option<PathBuf>,
    /// Shorter prompts are left out: below a machine's ridge TTFT is flat and no line.
    #[arg(long, value_name = "TOKENS", default_value_t = 0, value_parser = super::whole_number::<u64>)]
    min_tokens: u64,
    /// Write the plot to this file as well; its folder is made if it is missing.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// A constant number of tokens.
const fn tokens(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("a default over 0")
}

/// Prints who wins where.
///
/// # Errors
/// If a file cannot be read, nothing could be measured, or a target has fewer than three prompts of
/// more than one length.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let (runs, code) = match (config_of(&args.a)?, config_of(&args.b)?) {
        (Some(a), Some(b)) => {
            let sweep = sweep::Sweep::read([a, b], &args)?;
            block_on(sweep.run(&args.common))?
        }
        (None, None) => {
            ([read_runs(&args.a, Gaps::Drop)?, read_runs(&args.b, Gaps::Drop)?], exit_codes::OK)
        }
        _ => {
            let text =
                "one of --a and --b is a config, the other is not: two of a kind are compared";
            return Err(BadInput(text.into()).into());
        }
    };
    if code == exit_codes::INTERRUPTED {
        return Ok(code);
    }
    let [a, b] = [fitted(&runs[0], args.min_tokens)?, fitted(&runs[1], args.min_tokens)?];
    let found = find(&a, &b);
    if let Some(path) = &args.svg {
        replace_file(path, svg_file(&[a.clone(), b.clone()]).as_bytes())?;
    }
    if args.common.is_json() {
        answer(&format!("{:#}\n", to_json(&a, &b, &found)))?;
    } else {
        answer(&text(&a, &b, &found))?;
    }
    Ok(code)
}

/// The config that a side names; `None` if it names results.
fn config_of(paths: &[PathBuf]) -> Result<Option<&Path>, BadInput> {
    let is_config = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    match paths {
        [path] if path.file_name().is_some_and(|name| name == ENGINES_FILE_NAME) => {
            Err(BadInput(format!("{} is an engines file: --engines takes it", path.display())))
        }
        [path] if is_config(path) => Ok(Some(path)),
        _ if paths.iter().any(is_config) => {
            Err(BadInput("a side is one config, or results files".into()))
        }
        _ => Ok(None),
    }
}

fn fitted(runs: &[StoredRun], min_tokens: u64) -> anyhow::Result<Fitted> {
    let name = runs.first().map(|run| run.file.meta.target.clone()).unwrap_or_default();
    if let Some(other) = runs.iter().find(|run| run.file.meta.target != name) {
        let text = format!("{} and {name} are two targets", other.file.meta.target);
        return Err(BadInput(text).into());
    }
    let points = points(&runs.iter().collect::<Vec<_>>(), min_tokens);
    let usable = points.len();
    let why = runs.iter().find_map(|run| run.file.failed.as_ref().or(run.file.skipped.as_ref()));
    let why = why.map(|why| format!(": {}", why.text)).unwrap_or_default();
    let too_few = || {
        BadInput(format!(
            "{name}: a line takes at least three c = 1 requests with prompts of more than one \
             length ({usable} usable){why}"
        ))
    };
    Ok(Fitted::of(&name, points).ok_or_else(too_few)?)
}

fn text(a: &Fitted, b: &Fitted, found: &Found) -> String {
    format!(
        "{}\n{}\n\n{}\n{}\n",
        a.sentence(),
        b.sentence(),
        plot::ascii(a, b),
        sentence(a, b, found)
    )
}

fn to_json(a: &Fitted, b: &Fitted, found: &Found) -> Value {
    let target = |target: &Fitted| {
        json!({
            "target": target.name,
            "requests": target.points.len(),
            "intercept_s": target.line.intercept_s,
            "slope_s_per_token": target.line.slope_s,
            "lack_of_fit": target.bent.is_some(),
        })
    };
    let by_lines = match found.by_lines {
        Answer::NotResolved => json!({"answer": "not_resolved"}),
        Answer::Always(side) => json!({"answer": "always", "winner": winner(side, a, b).0}),
        Answer::Crosses { first, at } => json!({
            "answer": "crosses",
            "winner_below": winner(first, a, b).0,
            "winner_above": winner(first, a, b).1,
            "tokens": at.tokens,
            "standard_error": at.standard_error,
            "fieller_95": at.fieller,
            "delta_95": at.delta,
        }),
    };
    let curved =
        found.by_curves.map(|curve| json!({"tokens": curve.tokens, "fieller_95": curve.interval}));
    json!({
        "a": target(a), "b": target(b), "crossover": by_lines, "crossover_of_parabolas": curved,
        "sentence": sentence(a, b, found),
    })
}
