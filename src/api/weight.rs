//! What a JSON text would weigh in memory, without reading it.
//!
//! `[[]` takes three bytes on the wire and a hundred times as many as a tree of values, so that a body
//! within the limit could take gigabytes.

/// Values at most: more than any context has token ids.
const VALUES_MAX: usize = 1 << 21;
/// Lists and objects at most: four for each message of the longest conversation.
const CONTAINERS_MAX: usize = 1 << 18;

/// Whether the values of a JSON text fit into a few hundred megabytes, whatever they are.
pub fn is_bearable(json: &[u8]) -> bool {
    if json.len() <= CONTAINERS_MAX {
        return true;
    }
    let (mut values, mut containers) = (1, 0);
    let (mut in_string, mut escaped) = (false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b',' => values += 1,
            b'[' | b'{' => containers += 1,
            _ => {}
        }
    }
    values + containers <= VALUES_MAX && containers <= CONTAINERS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_weigh_nothing_whatever_they_spell() {
        assert!(is_bearable(format!("[\"{}\"]", r#"[,{\"\\"#.repeat(1_000_000)).as_bytes()));
    }

    #[test]
    fn values_and_containers_are_counted() {
        let list = |item: &str, n: usize| format!("[{}]", vec![item; n].join(","));
        assert!(is_bearable(list("1", VALUES_MAX - 1).as_bytes()));
        assert!(!is_bearable(list("1", VALUES_MAX).as_bytes()));
        assert!(is_bearable(list("{}", CONTAINERS_MAX - 1).as_bytes()));
        assert!(!is_bearable(list("[]", CONTAINERS_MAX).as_bytes()));
        assert!(!is_bearable(list("\"\\\\\", []", CONTAINERS_MAX).as_bytes()));
        assert!(!is_bearable("[[".repeat(CONTAINERS_MAX).as_bytes()));
    }
}
