//! The plot for a terminal.

use std::fmt::Write as _;

use crate::report::crossover::Fitted;
use crate::results::escape::terminal;

const PLOT_WIDTH: usize = 64;
const PLOT_HEIGHT: usize = 14;

/// TTFT against prompt tokens: A's and B's lines as letters, `*` where both are.
pub(super) fn ascii(a: &Fitted, b: &Fitted) -> String {
    let points = || a.points.iter().chain(&b.points);
    let longest = points().map(|point| point.tokens).fold(1.0, f64::max);
    let slowest = points().map(|point| point.ttft_s).fold(1e-9, f64::max);
    let mut cells = vec![vec![' '; PLOT_WIDTH]; PLOT_HEIGHT];
    for (letter, line) in [('A', a.line), ('B', b.line)] {
        let at_column = |column| (column, longest * column as f64 / (PLOT_WIDTH - 1) as f64);
        for (column, tokens) in (0..PLOT_WIDTH).map(at_column) {
            let height = line.at(tokens) / slowest * (PLOT_HEIGHT - 1) as f64;
            if !(0.0..=(PLOT_HEIGHT - 1) as f64).contains(&height) {
                continue;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
            let row = PLOT_HEIGHT - 1 - height.round() as usize;
            let cell = &mut cells[row][column];
            *cell = if *cell == ' ' { letter } else { '*' };
        }
    }
    let names = (terminal(&a.name), terminal(&b.name));
    let mut out = format!("TTFT, up to {:.0} ms (A: {}, B: {})\n", slowest * 1e3, names.0, names.1);
    for row in cells {
        let _ = writeln!(out, "|{}", row.into_iter().collect::<String>().trim_end());
    }
    let _ = writeln!(out, "+{} {longest:.0} prompt tokens", "-".repeat(PLOT_WIDTH));
    out
}
