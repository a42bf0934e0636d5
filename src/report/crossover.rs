//! From which prompt length on one target's first token comes sooner: the points, what is said of
//! two targets, and the plot. The page and `spark-bench crossover` say the same.

use super::evidence::{level_at, measured_ok};
use super::html::{self, escape};
use super::rates::by_target;
use super::svg::{Axis, Mark, Plot, Point as PlotPoint, Series, Style, short};
use super::views::Run;
use crate::analyse::crossover::{Answer, Line, Point, Side, answer};
use crate::analyse::curvature::{self, CurvedCrossing, Parabola};
use crate::results::brief::Brief;
use crate::results::store::StoredRun;

/// Dots of one target in the plot.
const DOTS_MAX: usize = 150;
/// Pieces of a drawn parabola.
const CURVE_POINTS: u32 = 40;

/// One target's points, and what goes through them.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The target.
    pub name: String,
    /// Fresh prompt tokens and TTFT of each c = 1 request.
    pub points: Vec<Point>,
    /// The line through them.
    pub line: Line,
    /// The parabola, where TTFT bends.
    pub bent: Option<Parabola>,
}

impl Fitted {
    /// `None` for fewer than three requests, or prompts of one length.
    pub fn of(name: &str, points: Vec<Point>) -> Option<Self> {
        let line = Line::fit(&points)?;
        let bent = Parabola::fit(&points).filter(Parabola::bends);
        Some(Self { name: name.to_owned(), points, line, bent })
    }

    /// What the fit says, in a line.
    pub fn sentence(&self) -> String {
        let (fixed, slope) = (self.line.intercept_s * 1e3, self.line.slope_s * 1e3);
        let rate = match 1.0 / self.line.slope_s {
            rate if rate > 0.0 => format!("{rate:.0} tok/s of prefill"),
            _ => "flat".into(),
        };
        let bent = match self.bent {
            Some(_) => {
                "; lack of fit: TTFT bends, so that a line is too high in the middle or at the ends"
            }
            None => "",
        };
        format!(
            "{}: TTFT = {fixed:.1} ms + {slope:.4} ms per prompt token ({rate}; {} requests){bent}",
            self.name,
            self.points.len()
        )
    }

    fn at(&self, tokens: f64) -> f64 {
        self.bent.map_or_else(|| self.line.at(tokens), |parabola| parabola.at(tokens))
    }
}

/// The c = 1 requests of runs of one target, as points. A cached token is no prompt to be computed.
pub fn points(runs: &[&StoredRun], min_tokens: u64) -> Vec<Point> {
    let levels = runs.iter().filter_map(|run| level_at(&run.file, 1));
    let point = |request: &Brief| {
        let tokens = request.n_fresh().filter(|fresh| *fresh >= min_tokens.max(1))?;
        Some(Point { tokens: tokens as f64, ttft_s: request.ttft()? })
    };
    levels.flat_map(measured_ok).filter_map(point).collect()
}

/// What is found between two targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// By the lines.
    pub by_lines: Answer,
    /// By parabolas, where one of the two bends and they cross.
    pub by_curves: Option<CurvedCrossing>,
}

/// Who wins where.
pub fn find(a: &Fitted, b: &Fitted) -> Found {
    let bends = a.bent.is_some() || b.bent.is_some();
    let by_curves = bends.then(|| curvature::crossing(&a.points, &b.points)).flatten();
    Found { by_lines: answer(&a.points, &b.points), by_curves }
}

/// The names of the winner and the loser.
pub fn winner<'a>(side: Side, a: &'a Fitted, b: &'a Fitted) -> (&'a str, &'a str) {
    match side {
        Side::A => (&a.name, &b.name),
        Side::B => (&b.name, &a.name),
    }
}

/// The shortest and the longest prompt of all.
fn lengths(fitted: &[&Fitted]) -> (f64, f64) {
    let tokens = fitted.iter().flat_map(|target| &target.points).map(|point| point.tokens);
    tokens.fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(n), high.max(n)))
}

/// What was found, in words.
pub fn sentence(a: &Fitted, b: &Fitted, found: &Found) -> String {
    let mut said = match found.by_lines {
        Answer::NotResolved => format!(
            "{} and {}: not resolved. Where their lines cross, if they do, is within the noise, or \
             outside the lengths that both were measured at. More prompts, or longer ones.",
            a.name, b.name
        ),
        Answer::Always(side) => {
            let (wins, loses) = winner(side, a, b);
            format!(
                "{wins} has the first token sooner than {loses} at every length that both were \
                 measured at."
            )
        }
        Answer::Crosses { first, at } => {
            let (short, long) = winner(first, a, b);
            let interval = at.fieller.map_or(String::new(), |[low, high]| {
                // Beyond what was measured nothing is known of either line.
                let (shortest, longest) = lengths(&[a, b]);
                let low = if low < shortest {
                    format!("under {shortest:.0}")
                } else {
                    format!("{low:.0}")
                };
                let high = if high > longest {
                    format!("over {longest:.0}")
                } else {
                    format!("{high:.0}")
                };
                format!(" (95 % interval by Fieller: {low} … {high})")
            });
            format!(
                "{short} has the first token sooner up to {:.0} prompt tokens{interval}, {long} \
                 from there on.",
                at.tokens
            )
        }
    };
    match found.by_curves {
        Some(CurvedCrossing { tokens, interval: Some([low, high]) }) => said.push_str(&format!(
            " By parabolas, since the lines do not fit: {tokens:.0} (95 % interval by Fieller: \
             {low:.0} … {high:.0})."
        )),
        Some(CurvedCrossing { interval: None, .. }) => {
            said.push_str(" By parabolas, since the lines do not fit, it is not resolved either.");
        }
        None => {}
    }
    said
}

/// The plot as a file of its own, which follows the reader's colour scheme.
pub fn svg_file(fitted: &[Fitted]) -> String {
    plot(fitted).svg(&super::file_style())
}

/// The section of the page.
pub fn section(runs: &[Run]) -> String {
    let stored: Vec<&StoredRun> = runs.iter().map(|run| run.stored).collect();
    let fitted: Vec<Fitted> = by_target(&stored)
        .iter()
        .filter_map(|(name, runs)| Fitted::of(name, points(runs, 0)))
        .collect();
    if fitted.len() < 2 {
        return "<p class=\"muted\">It takes two targets, each with prompts of several lengths at c=1 \
                (<code>spark-bench crossover --a CONFIG --b CONFIG</code> runs such a sweep).</p>"
            .to_owned();
    }
    let mut words = String::new();
    for (place, a) in fitted.iter().enumerate() {
        for b in &fitted[place + 1..] {
            words.push_str(&format!("<li>{}</li>", escape(&sentence(a, b, &find(a, b)))));
        }
    }
    let names = fitted.iter().enumerate();
    let legend =
        html::legend(names.map(|(place, target)| (target.name.as_str(), Style::nth(place))));
    let row = |target: &Fitted| {
        let (fixed, slope) = (target.line.intercept_s * 1e3, target.line.slope_s * 1e3);
        let fit = if target.bent.is_some() { "it bends" } else { "a line" };
        vec![
            target.name.clone(),
            target.points.len().to_string(),
            short(fixed),
            short(slope),
            fit.into(),
        ]
    };
    let rows: Vec<Vec<String>> = fitted.iter().map(row).collect();
    let head = ["target", "prompts", "fixed, ms", "per prompt token, ms", "fit"];
    let table = html::table("TTFT = fixed + per token · tokens", &head, &rows);
    let plot = plot(&fitted).svg("");
    format!("<ul>{words}</ul>{legend}{}", html::figure(&[plot], &table))
}

fn plot(fitted: &[Fitted]) -> Plot {
    let series = fitted.iter().enumerate().flat_map(|(place, target)| {
        // A parabola or line of one colour, and dots of the same.
        let style = Style::nth(place);
        let step = target.points.len().div_ceil(DOTS_MAX).max(1);
        let dot = |point: &Point| PlotPoint {
            x: point.tokens,
            y: point.ttft_s * 1e3,
            tip: format!(
                "{}\n{} tokens: {} ms",
                target.name,
                point.tokens,
                short(point.ttft_s * 1e3)
            ),
        };
        let points = target.points.iter().step_by(step).map(dot).collect();
        let dots = Series { name: target.name.clone(), style, mark: Mark::Dots, points };
        [fit_line(target, style), dots]
    });
    Plot {
        title: "TTFT against the prompt".into(),
        height: 230.0,
        x: Axis::linear("prompt tokens"),
        y: Axis::linear("ms"),
        series: series.collect(),
    }
}

fn fit_line(target: &Fitted, style: Style) -> Series {
    let (low, high) = lengths(&[target]);
    let at = |piece: u32| {
        let x = low + (high - low) * f64::from(piece) / f64::from(CURVE_POINTS);
        PlotPoint { x, y: target.at(x) * 1e3, tip: String::new() }
    };
    let points = (0..=CURVE_POINTS).map(at).collect();
    Series { name: target.name.clone(), style, mark: Mark::Line, points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, fixed: f64, slope: f64, square: f64) -> Fitted {
        let ttft_s = |n: f64, wiggle: f64| (fixed + slope * n + square * n * n) * (1.0 + wiggle);
        let lengths = [512.0, 1024.0, 2048.0, 4096.0];
        let pair = |n| [1e-4, -1e-4].map(|wiggle| Point { tokens: n, ttft_s: ttft_s(n, wiggle) });
        Fitted::of(name, lengths.into_iter().flat_map(pair).collect()).unwrap()
    }

    #[test]
    fn lines_that_cross_are_said_with_their_interval() {
        let (near, far) = (target("near", 0.05, 3e-4, 0.0), target("far", 0.6, 3e-5, 0.0));
        let said = sentence(&near, &far, &find(&near, &far));
        assert!(said.contains("near has the first token sooner up to 2037"), "{said}");
        assert!(said.contains("Fieller") && !said.contains("parabolas"), "{said}");
        assert!(!near.sentence().contains("lack of fit"));
        assert!(svg_file(&[near, far]).starts_with("<svg"));
    }

    #[test]
    fn an_interval_says_nothing_of_lengths_that_were_not_measured() {
        let noisy = |name: &str, fixed: f64, slope: f64| {
            let ttft = |n: f64, wiggle: f64| fixed + slope * n + wiggle;
            let lengths = [512.0, 1024.0, 2048.0, 4096.0];
            let pair = |n| [0.1, -0.1].map(|wiggle| Point { tokens: n, ttft_s: ttft(n, wiggle) });
            Fitted::of(name, lengths.into_iter().flat_map(pair).collect()).unwrap()
        };
        let (near, far) = (noisy("near", 0.05, 3e-4), noisy("far", 0.25, 3e-5));
        let said = sentence(&near, &far, &find(&near, &far));
        assert!(said.contains("up to 741 prompt tokens"), "{said}");
        assert!(said.contains("under 512 … "), "{said}");
    }

    #[test]
    fn a_lack_of_fit_is_said_and_the_parabolas_crossing_beside_the_lines() {
        let (near, far) = (target("near", 0.05, 2e-4, 4e-8), target("far", 0.6, 3e-5, 0.0));
        assert!(near.sentence().contains("lack of fit"), "{}", near.sentence());
        let said = sentence(&near, &far, &find(&near, &far));
        assert!(said.contains("By parabolas"), "{said}");
    }
}
