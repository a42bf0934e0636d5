//! What people look at: one page a set of results, and its plots as files. Pure functions of
//! results; every foreign string is escaped, nothing is loaded from anywhere.

mod answers;
mod budget;
pub mod crossover;
pub mod differences;
pub mod evidence;
mod explorer;
mod flags;
pub mod headlines;
mod html;
mod ladder;
mod levels;
pub mod prediction;
pub mod rates;
mod repeat;
pub mod shapes;
mod svg;
mod timeline;
mod views;
mod work;

pub use views::{Run, named};

use crate::results::scoreboard::{Figure, Row, rows_of, tables};
use crate::results::series::RunSeries;
use crate::results::store::{StoredRun, slug};
use html::escape;

const COLOURS_CSS: &str = include_str!("assets/colours.css");
const PLOT_CSS: &str = include_str!("assets/plot.css");
const PAGE_CSS: &str = include_str!("assets/page.css");
const HOVER_JS: &str = include_str!("assets/hover.js");
const EXPLORER_JS: &str = include_str!("assets/explorer.js");

/// Points over the time of a level in a plot that is a file of its own.
const FILE_BINS: usize = 160;

/// One part of the page: where it is, what it is called, what it says.
type Section = (&'static str, &'static str, String);

/// The page.
pub fn page(runs: &[StoredRun], series: Vec<RunSeries>) -> String {
    let runs = named(runs, series);
    let sections: [Section; 13] = [
        ("scoreboard", "Scoreboard", scoreboard(&runs)),
        ("flags", "Flags", flags::section(&runs)),
        ("shapes", "Prefill and decode by prompt length", shapes::section(&runs)),
        ("ladder", "Six numbers against concurrency", ladder::section(&runs)),
        ("explorer", "Where each one wins", explorer::section(&runs)),
        ("ttft", "Where the milliseconds of TTFT go", budget::section(&runs)),
        ("levels", "Level by level", levels::section(&runs)),
        ("little", "Little's law", answers::littles_law(&runs)),
        ("roofline", "Measured ÷ predicted", answers::roofline(&runs)),
        ("crossover", "Crossover", crossover::section(&runs)),
        ("cost", "Cost", answers::cost(&runs)),
        ("repeat", "To repeat it", repeat::section(&runs)),
        ("definitions", "What the numbers mean", repeat::definitions(&runs)),
    ];
    let shown: Vec<&Section> = sections.iter().filter(|(_, _, body)| !body.is_empty()).collect();
    let links: String =
        shown.iter().map(|(id, title, _)| format!("<a href=\"#{id}\">{title}</a>")).collect();
    let body: String = shown
        .iter()
        .map(|(id, title, body)| format!("<section id=\"{id}\"><h2>{title}</h2>{body}</section>"))
        .collect();
    let title = title(&runs);
    // The policy lets nothing in from outside, whatever a string in the results tries.
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\
         <title>{title}</title><link rel=\"icon\" href=\"data:,\">\
         <style>{COLOURS_CSS}{PAGE_CSS}{PLOT_CSS}</style></head><body>\
         <header><h1>{title}</h1><nav aria-label=\"Sections\">{links}</nav></header>\
         <main>{body}</main><script>{HOVER_JS}{EXPLORER_JS}</script></body></html>\n"
    )
}

fn title(runs: &[Run]) -> String {
    let mut targets: Vec<&str> =
        runs.iter().map(|run| run.stored.file.meta.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    let shown = targets.iter().take(4).copied().collect::<Vec<_>>().join(", ");
    let more = targets.len().saturating_sub(4);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    escape(&format!("{}{more}", html::shortened(&shown, 120)))
}

/// The same rows as SCOREBOARD.md's, a table for each piece of work.
fn scoreboard(runs: &[Run]) -> String {
    let stored = runs.iter().map(|run| run.stored);
    let mut html = String::new();
    for (work, rows) in tables(stored) {
        let row = |row: Row| {
            let figure = |figure: &Figure| {
                let text = escape(&figure.text);
                if figure.quotable { text } else { format!("<del>{text}</del>") }
            };
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&row.date),
                escape(&row.target),
                escape(&html::shortened(&row.change, 200)),
                figure(&row.ttft_ms),
                figure(&row.decode_tps),
                figure(&row.throughput_tps),
                escape(&html::shortened(&row.notes, 700)),
            )
        };
        let title = escape(&work.title(&rows[0].file.meta));
        let rows: String = rows_of(&rows).into_iter().map(row).collect();
        html.push_str(&format!(
            "<div class=\"scroll board\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\
             <caption>{title}</caption><thead><tr><th scope=\"col\">date</th><th scope=\"col\">target</th>\
             <th scope=\"col\">change</th><th scope=\"col\">TTFT p50 / p99 ms (c=1)</th>\
             <th scope=\"col\">tok/s p50 (c=1)</th><th scope=\"col\">throughput tok/s (c=16)</th>\
             <th scope=\"col\">notes</th></tr></thead><tbody>{rows}</tbody></table></div>"
        ));
    }
    html
}

/// The style sheet of a plot that is a file of its own.
fn file_style() -> String {
    format!("<style>{COLOURS_CSS}svg{{background:var(--paper)}}{PLOT_CSS}</style>")
}

/// Each plot as a file of its own, which follows the reader's colour scheme: (file name, SVG).
pub fn svg_files(runs: &[StoredRun], series: Vec<RunSeries>) -> Vec<(String, String)> {
    let runs = named(runs, series);
    let style = file_style();
    let mut files = Vec::new();
    for plot in ladder::plots(&runs) {
        files.push((format!("ladder-{}.svg", slug(&plot.title)), plot.svg(&style)));
    }
    for run in &runs {
        let name = slug(&run.name);
        files.push((format!("{name}-ttft.svg"), levels::distribution(run).svg(&style)));
        for level in &run.stored.file.levels {
            for plot in timeline::plots(run, level, FILE_BINS) {
                let c = level.summary.concurrency;
                let file = format!("{name}-c{c}-{}.svg", slug(&plot.title));
                files.push((file, plot.svg(&style)));
            }
        }
    }
    files
}
