//! One odd thing in a chunk costs nothing but itself: the text beside it and its stamp stay.

use crate::odd_streams::{DONE, check, event, good, sse, two};
use crate::support::scripted::{finish_event, text_event};

/// A stream whose first of two events with text has this choice.
fn with_choice(fields: &str) -> String {
    good(&format!("{}{}", event(&format!("{{\"choices\":[{{{fields}}}]}}")), text_event("b")))
}

fn with_delta(fields: &str) -> String {
    with_choice(&format!("\"delta\":{{\"content\":\"a\",{fields}}}"))
}

fn with_chunk(fields: &str) -> String {
    let first = format!("{{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}],{fields}}}");
    good(&format!("{}{}", event(&first), text_event("b")))
}

#[test]
fn a_field_of_an_odd_type_costs_nothing_but_itself() {
    let same = "ok 2u 2 stop ab prompt=5";
    let odd = ["{}", "[]", "\"\"", "\"x\"", "7", "-1.5", "true", "null", "[null]", "[[7]]"];
    let mut cases = Vec::new();
    for value in odd {
        for key in ["tool_calls", "function_call", "role", "refusal", "reasoning"] {
            // These are texts where they are texts.
            if value != "\"x\"" || !["refusal", "reasoning"].contains(&key) {
                cases.push((format!("{key}: {value}"), with_delta(&format!("\"{key}\":{value}"))));
            }
        }
        for key in ["logprobs", "usage", "message", "index", "stop_reason"] {
            let delta = "\"delta\":{\"content\":\"a\"}";
            let body = with_choice(&format!("{delta},\"{key}\":{value}"));
            cases.push((format!("{key}: {value}"), body));
        }
        for key in ["usage", "x_groq", "timings", "perf_metrics", "metrics", "object", "message"] {
            cases.push((format!("{key}: {value}"), with_chunk(&format!("\"{key}\":{value}"))));
        }
        let inner = format!("\"tool_calls\":[{{\"function\":{value}}}]");
        cases.push((inner.clone(), with_delta(&inner)));
        let usage = format!("\"usage\":{{\"prompt_tokens\":5,\"prompt_tokens_details\":{value}}}");
        cases.push((usage.clone(), with_chunk(&usage)));
    }
    let scripts: Vec<_> = cases.iter().map(|(name, body)| (&**name, sse(body), same)).collect();
    check(&scripts);
}

#[test]
fn choices_of_another_shape_are_choices_where_they_can_be() {
    let same = "ok 2u 2 stop ab prompt=5";
    let choice = "{\"delta\":{\"content\":\"a\"}}";
    let with = |choices: &str| {
        good(&format!("{}{}", event(&format!("{{\"choices\":{choices}}}")), text_event("b")))
    };
    let nothing = "ok 2u 1 stop b prompt=5";
    check(&[
        ("null before", sse(&with(&format!("[null,{choice}]"))), same),
        ("null after", sse(&with(&format!("[{choice},null]"))), same),
        ("only null", sse(&with("[null]")), nothing),
        ("no list", sse(&with(choice)), same),
        ("a text", sse(&with("\"\"")), nothing),
        ("a list of lists", sse(&with("[[1,2]]")), nothing),
        ("a list in a delta's place", sse(&with("[{\"delta\":[1]}]")), nothing),
        ("a text in a delta's place", sse(&with("[{\"delta\":\"x\"}]")), nothing),
    ]);
}

#[test]
fn json_that_a_strict_reader_refuses_keeps_its_text() {
    let half = "(JSON that had to be mended)";
    let mended = |extra: &str| format!("ok 2u 2 stop ab prompt=5{extra} {half}");
    let (read, odd) = (mended(""), mended(" odd=1"));
    check(&[
        ("a key twice", sse(&with_delta("\"refusal\":\"\",\"refusal\":null")), &read),
        ("a chunk's key twice", sse(&with_chunk("\"id\":1,\"model\":\"\",\"model\":\"\"")), &read),
        (
            "half a surrogate pair",
            sse(&with_choice("\"delta\":{\"content\":\"a\\ud83d\"}")),
            &format!("ok 2u 2 stop a\u{fffd}b prompt=5 {half}"),
        ),
        (
            "the other half, and a letter",
            sse(&with_choice("\"delta\":{\"content\":\"\\ude00a\\ud83dx\"}")),
            &format!("ok 2u 2 stop \u{fffd}a\u{fffd}xb prompt=5 {half}"),
        ),
        ("NaN", sse(&with_delta("\"p\":NaN,\"q\":-Infinity,\"r\":[Infinity]")), &odd),
        (
            "a bare tab",
            sse(&with_choice("\"delta\":{\"content\":\"a\t\"}")),
            &format!("ok 2u 2 stop a\tb prompt=5 odd=1 {half}"),
        ),
    ]);
}

#[test]
fn counts_and_arguments_are_read_beside_odd_neighbours() {
    let usage = |more: &str| {
        let counts = format!("\"prompt_tokens\":5,\"completion_tokens\":2,{more}");
        let last = event(&format!("{{\"choices\":[],\"usage\":{{{counts}}}}}"));
        format!("{}{}{last}{DONE}", two(), finish_event("stop"))
    };
    let same = "ok 2u 2 stop ab prompt=5";
    let called = |arguments: &str| {
        let call =
            format!("{{\"index\":0,\"function\":{{\"name\":\"f\",\"arguments\":{arguments}}}}}");
        good(&event(&format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}}}}]}}")))
    };
    let one_call = format!(
        "{{\"choices\":[{{\"delta\":{{\"tool_calls\":{}}}}}]}}",
        "{\"function\":{\"arguments\":\"{}\"}}"
    );
    check(&[
        ("details of another type", sse(&usage("\"prompt_tokens_details\":\"none\"")), same),
        ("a list of details", sse(&usage("\"prompt_tokens_details\":[1]")), same),
        ("a count twice", sse(&usage("\"prompt_tokens\":5")), same),
        ("no arguments, as JSON", sse(&called("{}")), "ok 2u 1 stop {} prompt=5"),
        ("no arguments, as text", sse(&called("\"{}\"")), "ok 2u 1 stop {} prompt=5"),
        ("arguments as JSON", sse(&called("{\"a\":1}")), "ok 2u 1 stop {\"a\":1} prompt=5"),
        ("a call that is no list", sse(&good(&event(&one_call))), "ok 2u 1 stop {} prompt=5"),
    ]);
}
