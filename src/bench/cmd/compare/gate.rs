//! `--fail-if-slower`: what a comparison means for CI.

use serde_json::{Value, json};

use super::rows::{Row, Verdict};
use crate::exit_codes;
use crate::results::brief::BriefFile;

/// What `--fail-if-slower` found.
pub(super) struct Gate {
    allowed: f64,
    pub slower: Vec<String>,
    unfinished: bool,
    other_work: Vec<String>,
    invalid: Vec<String>,
    /// Rows that may be slower than allowed, and by how much at most.
    not_excluded: Vec<(String, f64)>,
}

impl Gate {
    pub(super) fn of(allowed: f64, rows: &[Row], b: &BriefFile) -> Self {
        let names = |rows: Vec<&Row>| rows.into_iter().map(Row::name).collect::<Vec<_>>();
        let of = |holds: fn(&Verdict) -> bool| {
            names(rows.iter().filter(|row| holds(&row.verdict)).collect())
        };
        let ended = b.failed.as_ref().or(b.skipped.as_ref());
        Self {
            allowed,
            slower: names(rows.iter().filter(|row| row.is_worse_by(allowed)).collect()),
            unfinished: ended.is_some() || b.interrupted,
            other_work: of(|verdict| matches!(verdict, Verdict::OtherWork(_))),
            invalid: of(|verdict| matches!(verdict, Verdict::Invalid(_))),
            not_excluded: rows
                .iter()
                .filter_map(|row| Some((row.name(), row.may_be_worse_by(allowed)?)))
                .collect(),
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        let when = |holds: bool, code| if holds { code } else { exit_codes::OK };
        exit_codes::worst([
            // What is slower for certain is so, whatever else cannot be decided.
            when(!self.other_work.is_empty() && self.slower.is_empty(), exit_codes::USAGE),
            when(!self.slower.is_empty() || self.unfinished, exit_codes::CHECK_FAILED),
            when(!self.invalid.is_empty(), exit_codes::INVALID_LEVELS),
        ])
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let allowed = format!("{:.3}", self.allowed * 100.0);
        let allowed = allowed.trim_end_matches('0').trim_end_matches('.');
        let decided = if self.slower.is_empty() {
            format!("No figure is shown to be slower by more than {allowed} %.")
        } else {
            format!("Slower by more than {allowed} %: {}.", self.slower.join(", "))
        };
        let mut said = vec![String::new(), decided];
        let mut list = |what: &str, names: &[String]| {
            if !names.is_empty() {
                said.push(format!("{what}: {}.", names.join(", ")));
            }
        };
        list("Cannot be decided, for the work was another", &self.other_work);
        list("Cannot be decided, for a level is invalid", &self.invalid);
        let open: Vec<String> = self
            .not_excluded
            .iter()
            .map(|(name, by)| {
                if by.is_finite() { format!("{name} ({:.1} %)", by * 100.0) } else { name.clone() }
            })
            .collect();
        list(&format!("Over {allowed} % is not excluded either (99 %)"), &open);
        if self.unfinished {
            said.push("B did not finish.".into());
        }
        said
    }

    pub(super) fn to_json(&self) -> Value {
        let not_excluded: Vec<&String> = self.not_excluded.iter().map(|(name, _)| name).collect();
        json!({
            "allowed": self.allowed,
            "slower": self.slower,
            "b_unfinished": self.unfinished,
            "other_work": self.other_work,
            "invalid": self.invalid,
            "not_excluded": not_excluded,
            "exit_code": self.exit_code(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_comes_before_what_cannot_be_decided() {
        let none = || Gate {
            allowed: 0.05,
            slower: Vec::new(),
            unfinished: false,
            other_work: Vec::new(),
            invalid: Vec::new(),
            not_excluded: Vec::new(),
        };
        let one = || vec!["c=1 ttft".to_owned()];
        assert_eq!(none().exit_code(), exit_codes::OK);
        let open = Gate { not_excluded: vec![("c=1 ttft".into(), 0.2)], ..none() };
        assert_eq!(open.exit_code(), exit_codes::OK, "only what is shown fails");
        assert!(open.sentences()[2].contains("c=1 ttft (20.0 %)"), "{:?}", open.sentences());
        assert_eq!(Gate { slower: one(), ..none() }.exit_code(), exit_codes::CHECK_FAILED);
        assert_eq!(Gate { unfinished: true, ..none() }.exit_code(), exit_codes::CHECK_FAILED);
        assert_eq!(Gate { invalid: one(), ..none() }.exit_code(), exit_codes::INVALID_LEVELS);
        assert_eq!(Gate { other_work: one(), ..none() }.exit_code(), exit_codes::USAGE);
        let other = Gate { other_work: one(), slower: one(), ..none() };
        assert_eq!(other.exit_code(), exit_codes::CHECK_FAILED, "one figure is slower for certain");
    }
}
