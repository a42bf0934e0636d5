//! A drill from the outside: the real program, its servers, its table.

use std::process::Command;

use crate::support::child::output;
use crate::support::dead_port::dead_port;

#[test]
fn counting_events_is_off_where_events_are_words_and_only_there() {
    let mut drill = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
    let output = output(drill.args(["drill", "events"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    // 160 tokens in 160 events, and in 100: (100 − 1) ÷ (160 − 1) is 37.7 % too little.
    assert!(line("an event a token").contains("0.0 %"), "{text}");
    assert!(line("an event a word").contains("-37.7 %"), "{text}");
}

#[test]
fn a_server_that_is_not_there_is_found_out_before_the_drill() {
    let (_nobody, address) = dead_port();
    let url = format!("http://{address}/v1");
    for (server, expect) in
        [(url.as_str(), "nothing answers there"), ("https://a/v1", "plain HTTP")]
    {
        let mut drill = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
        let output = output(drill.args(["drill", "hangup", "--server", server]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout), (Some(2), Vec::new()), "{said}");
        assert!(said.contains(expect), "{said}");
    }
}
