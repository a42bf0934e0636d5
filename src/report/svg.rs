//! A small SVG writer for the report's plots.
//!
//! Not plotters: its SVG backend writes fixed colours into each element and knows neither classes
//! nor titles, so a page could follow no colour scheme, and a screen reader and a pointer would
//! find nothing. Here a shape has a class (the style sheet colours it) and a `data-tip`.

use super::html::escape;

/// Size of a plot in its own units; text is 11 of them high, so that a plot that fills a phone
/// stays legible.
pub const WIDTH: f64 = 380.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 24.0;
/// Colours that the style sheet knows.
pub const COLOURS: usize = 8;
/// Kinds of line that it knows, the solid one included.
pub const DASHES: usize = 5;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Its colour, under [`COLOURS`].
    pub colour: usize,
    /// Its kind, under [`DASHES`]; 0 is solid.
    pub dash: usize,
}

impl Style {
    /// The n-th of lines that differ in nothing else: all colours, then all colours in dashes.
    pub fn nth(place: usize) -> Self {
        Self { colour: place % COLOURS, dash: place / COLOURS % DASHES }
    }

    /// Its classes in the style sheet.
    pub fn class(self) -> String {
        match self.dash {
            0 => format!("c{}", self.colour),
            dash => format!("c{} d d{dash}", self.colour),
        }
    }
}

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By ratios; values at or below zero have no place.
    Log,
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How.
    pub scale: Scale,
    /// Where its marks stand, if that is not to be worked out.
    pub ticks: Option<Vec<f64>>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Linear, ticks: None }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Log, ticks: None }
    }
}

/// A point, and what a pointer on it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Value on the x axis.
    pub x: f64,
    /// Value on the y axis.
    pub y: f64,
    /// For the pointer; empty for none.
    pub tip: String,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line, with a dot at each point that has a tip.
    Line,
    /// A line over a filled area.
    Area,
    /// Dots alone.
    Dots,
}

/// One line of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// How its line looks.
    pub style: Style,
    /// How it is drawn.
    pub mark: Mark,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
}

/// One plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Stands above it and is what a screen reader says.
    pub title: String,
    /// Its height, axes included.
    pub height: f64,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// Where an axis lies: values from `low` to `high`, places from `from` to `to`.
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Span {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let usable = values.filter(|v| v.is_finite() && (scale == Scale::Linear || *v > 0.0));
        let (low, high) =
            usable.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        let (low, high) = match scale {
            Scale::Linear => (low.min(0.0), if high <= 0.0 { 1.0 } else { high * 1.05 }),
            Scale::Log => (low / 1.25, high * 1.25),
        };
        Self { scale, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + (self.to - self.from) * share.clamp(-0.1, 1.1)
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Four to eight round values.
    fn ticks(&self) -> Vec<f64> {
        let linear = self.scale == Scale::Linear || self.high / self.low < 4.0;
        let steps: Vec<f64> = match linear {
            true => {
                let raw = (self.high - self.low) / 4.0;
                let power = 10_f64.powf(raw.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
                let step = step.unwrap_or(raw);
                (0..=8).map(|k| (self.low / step).ceil() * step + f64::from(k) * step).collect()
            }
            false => {
                let decades = (self.high / self.low).log10();
                let factors: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                (-9..=9)
                    .flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)))
                    .collect()
            }
        };
        steps.into_iter().filter(|v| (self.low..=self.high).contains(v)).collect()
    }
}

/// A number for an axis or a tip: no more digits than it takes.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        return format!("{}M", trimmed(value / 1e6, 2));
    }
    if size >= 10_000.0 {
        return format!("{}k", trimmed(value / 1e3, 1));
    }
    let decimals = match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.01 => 3,
        _ => 5,
    };
    trimmed(value, decimals)
}

fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

impl Plot {
    /// As an `<svg>` element; `style` stands inside it (for a file of its own).
    pub fn svg(&self, style: &str) -> String {
        let legend = if style.is_empty() { String::new() } else { self.legend() };
        let entries = if style.is_empty() { 0 } else { self.named().len() };
        let legend_height = 16.0 * entries as f64;
        let height = self.height + legend_height;
        let title = escape(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{title}\" class=\"plot\">{style}<text class=\"h\" x=\"4\" y=\"14\">{title}</text>"
        );
        let all = || self.series.iter().flat_map(|series| &series.points);
        let xs = all().map(|p| p.x).chain(self.x.ticks.iter().flatten().copied());
        let x = Span::new(self.x.scale, xs, (LEFT, WIDTH - RIGHT));
        let y = Span::new(self.y.scale, all().map(|p| p.y), (self.height - BOTTOM, TOP));
        svg.push_str(&self.axes(&x, &y));
        if all().next().is_none() {
            let (cx, cy) = (WIDTH / 2.0, self.height / 2.0);
            svg.push_str(&format!(
                "<text class=\"m\" text-anchor=\"middle\" x=\"{cx}\" y=\"{cy}\">not measured</text>"
            ));
        }
        for series in &self.series {
            svg.push_str(&draw(series, &x, &y));
        }
        svg.push_str(&legend);
        svg.push_str("</svg>");
        svg
    }

    fn axes(&self, x: &Span, y: &Span) -> String {
        let mut svg = String::new();
        for tick in y.ticks() {
            let (at, to) = (y.at(tick), WIDTH - RIGHT);
            svg.push_str(&format!(
                "<path class=\"g\" d=\"M{LEFT} {at:.1}H{to}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                at + 4.0,
                short(tick)
            ));
        }
        let base = self.height - BOTTOM;
        let mut last = f64::MIN;
        for tick in self.x.ticks.clone().unwrap_or_else(|| x.ticks()) {
            let at = x.at(tick);
            // Marks that would overlap are left out.
            if at - last < 26.0 {
                continue;
            }
            last = at;
            svg.push_str(&format!(
                "<path class=\"g\" d=\"M{at:.1} {base}v4\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                base + 15.0,
                short(tick)
            ));
        }
        svg.push_str(&format!(
            "<path class=\"a\" d=\"M{LEFT} {base}H{}\"/>\
             <text class=\"m\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <text class=\"m\" x=\"{}\" y=\"14\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            WIDTH - RIGHT,
            self.height - 4.0,
            escape(&self.x.label),
            WIDTH - RIGHT,
            escape(&self.y.label),
        ));
        svg
    }

    /// The series, those of one name once: dots and the line through them are one thing.
    fn named(&self) -> Vec<&Series> {
        let mut named: Vec<&Series> = Vec::new();
        for series in &self.series {
            if named.iter().all(|known| known.name != series.name) {
                named.push(series);
            }
        }
        named
    }

    fn legend(&self) -> String {
        let entries = self.named().into_iter().enumerate().map(|(place, series)| {
            let y = self.height + 4.0 + 16.0 * place as f64;
            format!(
                "<path class=\"l {}\" d=\"M{LEFT} {y}h24\"/><text x=\"{}\" y=\"{}\">{}</text>",
                series.style.class(),
                LEFT + 30.0,
                y + 4.0,
                escape(&series.name)
            )
        });
        entries.collect()
    }
}

fn draw(series: &Series, x: &Span, y: &Span) -> String {
    let shown: Vec<&Point> =
        series.points.iter().filter(|p| x.shows(p.x) && y.shows(p.y)).collect();
    let places: Vec<String> =
        shown.iter().map(|p| format!("{:.1} {:.1}", x.at(p.x), y.at(p.y))).collect();
    let (colour, line) = (series.style.colour, series.style.class());
    let mut svg = String::new();
    if series.mark == Mark::Area && !places.is_empty() {
        let (first, last) = (x.at(shown[0].x), x.at(shown[shown.len() - 1].x));
        svg.push_str(&format!(
            "<path class=\"f c{colour}\" d=\"M{first:.1} {:.1}L{}L{last:.1} {:.1}Z\"/>",
            y.from,
            places.join("L"),
            y.from
        ));
    }
    if series.mark != Mark::Dots && places.len() > 1 {
        svg.push_str(&format!("<path class=\"l {line}\" d=\"M{}\"/>", places.join("L")));
    }
    let dots = shown.iter().filter(|p| series.mark == Mark::Dots || !p.tip.is_empty());
    for point in dots {
        let tip = if point.tip.is_empty() {
            String::new()
        } else {
            format!(" data-tip=\"{}\"", escape(&point.tip))
        };
        // Over an area the line is enough to see; the dot is there for the pointer.
        let (radius, seen) = match series.mark {
            Mark::Dots => (2.0, ""),
            Mark::Line => (3.2, ""),
            Mark::Area => (7.0, " t"),
        };
        svg.push_str(&format!(
            "<circle class=\"p c{colour}{seen}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"{tip}/>",
            x.at(point.x),
            y.at(point.y)
        ));
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.000_04, 0.0421, 1.0, 12.34, 970.0, 12_345.0, 3.2e6].map(short);
        assert_eq!(shown, ["0.00004", "0.042", "1", "12.3", "970", "12.3k", "3.2M"]);
    }

    #[test]
    fn a_hostile_name_is_text_and_an_empty_plot_says_so() {
        let plot = Plot {
            title: "<script>alert(1)</script>".into(),
            height: 200.0,
            x: Axis::linear("x"),
            y: Axis::log("y"),
            series: Vec::new(),
        };
        let svg = plot.svg("");
        assert!(!svg.contains("<script") && svg.contains("not measured"), "{svg}");
    }

    #[test]
    fn a_line_and_its_dots_are_one_entry_of_the_legend() {
        let series = |name: &str, mark| {
            let points = vec![Point { x: 1.0, y: 2.0, tip: String::new() }];
            Series { name: name.into(), style: Style::nth(0), mark, points }
        };
        let plot = Plot {
            title: "t".into(),
            height: 200.0,
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![
                series("near", Mark::Line),
                series("near", Mark::Dots),
                series("far", Mark::Line),
            ],
        };
        let svg = plot.svg("<style></style>");
        assert_eq!((svg.matches(">near<").count(), svg.matches(">far<").count()), (1, 1), "{svg}");
        assert!(svg.contains(&format!("viewBox=\"0 0 {WIDTH} 232\"")), "two lines of 16: {svg}");
    }

    #[test]
    fn nothing_that_cannot_be_placed_is_drawn() {
        let point = |y: f64| Point { x: 1.0, y, tip: "t".into() };
        let series = Series {
            name: "a".into(),
            style: Style::nth(9),
            mark: Mark::Line,
            points: vec![point(f64::NAN), point(0.0), point(2.0)],
        };
        let plot = Plot {
            title: "t".into(),
            height: 200.0,
            x: Axis::linear("x"),
            y: Axis::log("y"),
            series: vec![series],
        };
        let svg = plot.svg("");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1);
    }
}
