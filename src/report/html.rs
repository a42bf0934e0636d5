//! Pieces of HTML: escaped text, tables, figures with their table behind them.

use super::svg::Style;
use crate::results::escape::terminal;

/// Foreign text as HTML text or attribute: shown, never obeyed. Control characters go too.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in terminal(text).chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// At most so many characters of foreign text, with its end marked.
pub fn shortened(text: &str, chars_max: usize) -> String {
    let short: String = text.chars().take(chars_max).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// A table of text cells; the first column heads its row.
pub fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let head: String =
        head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", escape(cell))).collect();
    let rows: String = rows
        .iter()
        .map(|row| {
            let mut cells = row.iter();
            let first = cells
                .next()
                .map_or(String::new(), |cell| format!("<th scope=\"row\">{}</th>", escape(cell)));
            let rest: String = cells.map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            format!("<tr>{first}{rest}</tr>")
        })
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption>\
         <thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
        escape(caption)
    )
}

/// Plots, and the numbers behind them one click away.
pub fn figure(plots: &[String], table: &str) -> String {
    format!(
        "<figure><div class=\"plots\">{}</div><details><summary>The numbers</summary>{table}</details></figure>",
        plots.concat()
    )
}

/// A piece of each line, and the name that it stands for.
pub fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, Style)>) -> String {
    let entry = |(name, style): (&str, Style)| {
        format!(
            "<li><svg class=\"plot key\" viewBox=\"0 0 24 8\" aria-hidden=\"true\">\
             <path class=\"l {}\" d=\"M0 4H24\"/></svg>{}</li>",
            style.class(),
            escape(name)
        )
    };
    let entries: String = entries.into_iter().map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_and_not_obeyed() {
        let hostile = "<img src=x onerror='a'>\u{1b}[31m \"&\"";
        let shown = escape(hostile);
        assert_eq!(shown, "&lt;img src=x onerror=&#39;a&#39;&gt;\u{fffd}[31m &quot;&amp;&quot;");
        assert!(table("c", &["h"], &[vec![hostile.into()]]).contains(&shown));
        assert_eq!(shortened("abcdef", 3), "abc…");
    }
}
