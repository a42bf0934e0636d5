//! Whether llama.cpp can follow a grammar that it has made itself of a JSON Schema.
//!
//! Two things that a schema can ask for send its parser or its matcher off for ever: a repetition
//! with its least over its most, `a{3,1}`, and whatever can be empty in more than one way, `(a?)*`:
//! the matcher tries each way anew, and twenty in a row make a million.

use std::collections::{HashMap, HashSet};

/// Why a grammar can't be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// `{m,n}` with n < m.
    #[error("the schema asks for at least more than it allows at most")]
    Backward,
    /// An alternative, a repetition or an option that several empty readings fit.
    #[error("a pattern in the schema can be empty in more than one way")]
    AmbiguouslyEmpty,
}

/// Looks through all rules of a grammar. What is no grammar is the compiler's business.
///
/// # Errors
/// The first trouble.
pub(super) fn check(gbnf: &str) -> Result<(), Trouble> {
    let tokens = tokens(gbnf);
    let mut rules = HashMap::new();
    let mut at = 0;
    while let (Some(Token::Name(name)), Some(Token::Is)) = (tokens.get(at), tokens.get(at + 1)) {
        at += 2;
        rules.insert(*name, alternatives(&tokens, &mut at)?);
    }
    let mut empty = HashSet::new();
    loop {
        let n_known = empty.len();
        for (name, rule) in &rules {
            if rule.iter().any(|items| all_empty(items, &empty)) {
                empty.insert(*name);
            }
        }
        if empty.len() == n_known {
            break;
        }
    }
    rules.values().try_for_each(|rule| check_choice(rule, &empty))
}

type Choice<'a> = Vec<Vec<Item<'a>>>;
type EmptyRules<'a> = HashSet<&'a str>;

/// One item of a sequence.
struct Item<'a> {
    what: What<'a>,
    quantity: Quantity,
}

enum What<'a> {
    /// A literal, a class, any character.
    Text {
        is_empty: bool,
    },
    Rule(&'a str),
    Group(Choice<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Once,
    FromNone,
    FromOne,
}

fn all_empty(items: &[Item<'_>], empty: &EmptyRules<'_>) -> bool {
    items.iter().all(|item| item.quantity == Quantity::FromNone || is_empty(&item.what, empty))
}

fn is_empty(what: &What<'_>, empty: &EmptyRules<'_>) -> bool {
    match what {
        What::Text { is_empty } => *is_empty,
        What::Rule(name) => empty.contains(name),
        What::Group(choice) => choice.iter().any(|items| all_empty(items, empty)),
    }
}

fn check_choice(choice: &Choice<'_>, empty: &EmptyRules<'_>) -> Result<(), Trouble> {
    if choice.iter().filter(|items| all_empty(items, empty)).count() > 1 {
        return Err(Trouble::AmbiguouslyEmpty);
    }
    for item in choice.iter().flatten() {
        if item.quantity != Quantity::Once && is_empty(&item.what, empty) {
            return Err(Trouble::AmbiguouslyEmpty);
        }
        if let What::Group(inner) = &item.what {
            check_choice(inner, empty)?;
        }
    }
    Ok(())
}

/// Reads up to the end of the rule or of the group, which is left to the caller.
fn alternatives<'a>(tokens: &[Token<'a>], at: &mut usize) -> Result<Choice<'a>, Trouble> {
    let mut choice = vec![Vec::new()];
    while let Some(token) = tokens.get(*at) {
        let starts_a_rule = tokens.get(*at + 1) == Some(&Token::Is);
        let what = match token {
            Token::Name(_) if starts_a_rule => break,
            Token::Close | Token::Is => break,
            Token::Or => {
                choice.push(Vec::new());
                *at += 1;
                continue;
            }
            Token::Times(_) => {
                *at += 1;
                continue;
            }
            Token::Name(name) => What::Rule(name),
            Token::Text { is_empty } => What::Text { is_empty: *is_empty },
            Token::Open => {
                *at += 1;
                What::Group(alternatives(tokens, at)?)
            }
        };
        *at += 1;
        let quantity = match tokens.get(*at) {
            Some(Token::Times(quantity)) => {
                *at += 1;
                (*quantity)?
            }
            _ => Quantity::Once,
        };
        choice.last_mut().expect("there is a first one").push(Item { what, quantity });
    }
    Ok(choice)
}

#[derive(PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Is,
    Or,
    Open,
    Close,
    Text { is_empty: bool },
    Times(Result<Quantity, Trouble>),
}

fn tokens(gbnf: &str) -> Vec<Token<'_>> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut found = Vec::new();
    let mut rest = gbnf;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let mut length = first.len_utf8();
        match first {
            '"' | '[' => {
                let inside = quoted_length(after, if first == '"' { b'"' } else { b']' });
                length += (inside + 1).min(after.len());
                found.push(Token::Text { is_empty: inside == 0 && first == '"' });
            }
            '#' => length += after.find('\n').unwrap_or(after.len()),
            '{' => {
                let inside = &after[..after.find('}').unwrap_or(after.len())];
                length += inside.len();
                found.push(Token::Times(quantity(inside)));
            }
            '*' | '?' => found.push(Token::Times(Ok(Quantity::FromNone))),
            '+' => found.push(Token::Times(Ok(Quantity::FromOne))),
            '|' => found.push(Token::Or),
            '(' => found.push(Token::Open),
            ')' => found.push(Token::Close),
            '.' => found.push(Token::Text { is_empty: false }),
            ':' if rest.starts_with("::=") => {
                length = 3;
                found.push(Token::Is);
            }
            c if is_of_a_name(c) => {
                length = rest.find(|c| !is_of_a_name(c)).unwrap_or(rest.len());
                found.push(Token::Name(&rest[..length]));
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    found
}

/// What stands between curly brackets: `m`, `m,` or `m,n`. Once or never again is no repetition.
fn quantity(inside: &str) -> Result<Quantity, Trouble> {
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (number(least), number(most)) {
        (Some(least), Some(most)) if most < least => Err(Trouble::Backward),
        (Some(1), Some(1)) => Ok(Quantity::Once),
        (Some(0), _) => Ok(Quantity::FromNone),
        _ => Ok(Quantity::FromOne),
    }
}

/// The length of what stands before the closing byte; a backslash takes the byte after it along.
fn quoted_length(text: &str, closing: u8) -> usize {
    let mut escaped = false;
    let ends = |byte: u8| {
        let is_end = byte == closing && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    };
    text.bytes().position(ends).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_that_runs_backwards_is_found_wherever_it_counts() {
        for gbnf in ["root ::= a{3,1}", r"r ::= [\]{]{2,1}", r#"r ::= "\"{" (b c){ 9 , 8 }"#] {
            assert_eq!(check(gbnf), Err(Trouble::Backward), "{gbnf}");
        }
        for gbnf in ["root ::= a{1,3} b{2,} c{4} d{5,5}", r#"r ::= "{3,1}" [{3,1}]"#, "# {3,1}\n"] {
            assert_eq!(check(gbnf), Ok(()), "{gbnf}");
        }
    }

    #[test]
    fn what_can_be_empty_in_more_than_one_way_is_found_across_rules() {
        for gbnf in [
            r#"root ::= ("a"?)*"#,
            r#"root ::= ("a"?){40}"#,
            r#"root ::= ("a"*)?"#,
            r#"root ::= "x" ("a"? | "b"*) "y""#,
            "root ::= item+\nitem ::= space \"a\"?\nspace ::= | \" \"\n",
            "root ::= (a b)*\na ::= b\nb ::= \"\" | \"c\"\n",
        ] {
            assert_eq!(check(gbnf), Err(Trouble::AmbiguouslyEmpty), "{gbnf}");
        }
        for gbnf in [
            r#"root ::= ("a" "b"?)* space space"#,
            "root ::= \"{\" space (pair (\",\" space pair)*)? \"}\"\npair ::= [^\"\\n]* \":\"\n\
             space ::= | \" \" | \"\\n\"{1,2} [ \\t]{0,20}\n",
            "root ::= .{0,5} [a-z]+ (\"a\" | \"b\"){2,3}",
            "",
            "root ::=",
            "root ::= (",
            ")",
        ] {
            assert_eq!(check(gbnf), Ok(()), "{gbnf}");
        }
    }
}
