//! The counters of a page of Prometheus metrics, and how far they went between two looks.
//!
//! Reads the text format and OpenMetrics. Only what counts upwards can be told apart over a level:
//! counters, and the sums and counts of histograms and summaries; gauges and buckets are left out.

use std::collections::BTreeMap;

/// Series that one page may have: more than any server shows, and a bound for the results file.
const SERIES_MAX: usize = 2000;

/// The counters of a page, by name and labels as they stand there.
pub type Counters = BTreeMap<String, f64>;

/// The counters of a page.
pub fn counters(page: &str) -> Counters {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Counters::new();
    for line in page.lines() {
        if let Some(declaration) = line.strip_prefix("# TYPE ") {
            kinds.extend(declaration.trim().split_once(' '));
        } else if !line.starts_with('#')
            && let Some((series, value)) = sample(line)
            && counts_upwards(series, &kinds)
            && found.len() < SERIES_MAX
        {
            found.insert(series.to_owned(), value);
        }
    }
    found
}

/// How far each counter went; one that is not on the first page began at zero.
///
/// # Errors
/// The name of a counter that went back: its server began anew.
pub fn difference(before: &Counters, after: &Counters) -> Result<Counters, String> {
    let went = |(series, value): (&String, &f64)| {
        let gone = value - before.get(series).copied().unwrap_or(0.0);
        if gone < 0.0 { Err(series.clone()) } else { Ok((series.clone(), gone)) }
    };
    after.iter().map(went).collect()
}

/// The series (name and labels) and the value of a line.
fn sample(line: &str) -> Option<(&str, f64)> {
    let end = match line.find(['{', ' ', '\t'])? {
        brace if line[brace..].starts_with('{') => brace + labels_end(&line[brace..])?,
        space => space,
    };
    let (series, rest) = line.split_at(end);
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((series, value))
}

/// Where the labels end: at a brace outside quotes.
fn labels_end(labels: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (place, char) in labels.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(place + 1),
            _ => {}
        }
    }
    None
}

fn counts_upwards(series: &str, kinds: &BTreeMap<&str, &str>) -> bool {
    let name = series.split('{').next().unwrap_or_default();
    let is = |name: Option<&str>, wanted: &[&str]| {
        name.and_then(|name| kinds.get(name)).is_some_and(|kind| wanted.contains(kind))
    };
    // OpenMetrics declares a counter without the ending of its sample.
    let counter = is(Some(name), &["counter"]) || is(name.strip_suffix("_total"), &["counter"]);
    let of_distribution = ["_sum", "_count"]
        .iter()
        .any(|ending| is(name.strip_suffix(ending), &["histogram", "summary"]));
    counter || of_distribution
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP llamacpp:tokens_predicted_total Number of tokens.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 1200
# TYPE requests counter
requests_total{path=\"/a } b\",who=\"\\\"\"} 3 1700000000
requests_created{path=\"/a\"} 1.7e9
# TYPE ttft histogram
ttft_bucket{le=\"+Inf\"} 4
ttft_sum 0.5
ttft_count 4
# TYPE slots gauge
slots 7
# TYPE odd counter
odd NaN
untyped 5
torn{a=\"
";

    #[test]
    fn only_what_counts_upwards_is_taken() {
        let found = counters(PAGE);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "llamacpp:tokens_predicted_total",
                "requests_total{path=\"/a } b\",who=\"\\\"\"}",
                "ttft_count",
                "ttft_sum",
            ]
        );
        assert_eq!(found["ttft_sum"], 0.5);
        assert!(counters("<html>no such page</html>").is_empty());
    }

    #[test]
    fn the_difference_is_what_happened_between_two_looks() {
        let before = Counters::from([("a".to_owned(), 5.0)]);
        let after = Counters::from([("a".to_owned(), 7.5), ("new".to_owned(), 2.0)]);
        let went = difference(&before, &after).unwrap();
        assert_eq!((went["a"], went["new"]), (2.5, 2.0));
        assert_eq!(difference(&after, &before), Err("a".to_owned()));
    }
}
