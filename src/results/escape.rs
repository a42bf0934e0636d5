//! Foreign text, made harmless for where it is shown: a terminal, a Markdown table, a spreadsheet.
//!
//! Model names, error bodies and log lines come from servers that may be hostile. HTML is
//! `report`'s business.

/// `text` on one line, without anything that a terminal would obey: control characters become
/// `�`, line ends and tabs a space, and nothing can turn the direction of the line around.
pub fn terminal(text: &str) -> String {
    text.chars()
        .map(|char| match char {
            '\n' | '\r' | '\t' => ' ',
            _ if char.is_control() || is_bidi_control(char) => '\u{fffd}',
            _ => char,
        })
        .collect()
}

/// Characters that reorder what stands around them.
fn is_bidi_control(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` as one cell of a Markdown table: no column of its own, no markup, no HTML.
pub fn markdown_cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for char in terminal(text).trim().chars() {
        match char {
            '<' => cell.push_str("&lt;"),
            '>' => cell.push_str("&gt;"),
            '&' => cell.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '[' | ']' | '~' => cell.extend(['\\', char]),
            _ => cell.push(char),
        }
    }
    cell
}

/// `text` as a spreadsheet cell that stays text: what a spreadsheet would run as a formula gets
/// an apostrophe in front.
pub fn spreadsheet_cell(text: &str) -> std::borrow::Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']) {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_in_it() {
        assert_eq!(
            terminal("a\u{1b}[31mred\u{7}\nb\u{202e}c"),
            "a\u{fffd}[31mred\u{fffd} b\u{fffd}c"
        );
        assert_eq!(terminal("Größe 8 µs"), "Größe 8 µs");
    }

    #[test]
    fn a_cell_stays_one_cell() {
        assert_eq!(
            markdown_cell("a|b <!-- scoreboard:end -->\n[x](y)"),
            "a\\|b &lt;!-- scoreboard:end --&gt; \\[x\\](y)"
        );
    }

    #[test]
    fn a_formula_is_text() {
        assert_eq!(spreadsheet_cell("=1+1"), "'=1+1");
        assert_eq!(spreadsheet_cell("@SUM(A1)"), "'@SUM(A1)");
        assert_eq!(spreadsheet_cell("-"), "'-");
        assert_eq!(spreadsheet_cell("a=b"), "a=b");
        assert_eq!(spreadsheet_cell(""), "");
    }
}
