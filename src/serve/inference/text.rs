//! From the bytes of tokens to text that may be sent. Pure.
//!
//! Two things hold text back: a character whose last bytes have not come yet, and an ending that may
//! become a stop string. What is sent is whole characters only and never any part of the stop string
//! that ended the answer; what is still held when the answer ends is sent then, whatever the reason.
//!
//! The stop string that is complete first ends the answer; of several that are complete at the same
//! character, the longest. So the result does not depend on how the text was cut into tokens.

/// Holds back what may not be sent yet.
#[derive(Debug, Default)]
pub struct TextHolder {
    stops: Vec<String>,
    /// The first bytes of a character: at most 3.
    bytes: Vec<u8>,
    /// Whole characters that may be the beginning of a stop string.
    held: String,
}

/// What became of the bytes of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// Go on; this may be sent. It may be empty.
    Text(String),
    /// A stop string is complete: this is all that may still be sent.
    Stopped {
        /// What came before the stop string.
        text: String,
        /// The stop string.
        by: String,
    },
}

impl TextHolder {
    /// A holder for an answer that any of `stops` ends. Empty ones are ignored.
    pub fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        Self { stops, ..Self::default() }
    }

    /// Takes the bytes of the next token. Bytes that can't be UTF-8 become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> Pushed {
        let before = self.held.len();
        self.decode(bytes);
        if let Some((start, stop)) = self.first_stop(before) {
            self.held.truncate(start);
            return Pushed::Stopped { text: std::mem::take(&mut self.held), by: stop };
        }
        let keep = self.held.len() - self.possible_start();
        let rest = self.held.split_off(keep);
        Pushed::Text(std::mem::replace(&mut self.held, rest))
    }

    /// Bytes of whole characters that are held back.
    pub fn n_held(&self) -> usize {
        self.held.len()
    }

    /// Whether the first bytes of a character have come, and its last one has not.
    pub fn is_within_a_character(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The answer has ended: what was held back. An incomplete character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        if !self.bytes.is_empty() {
            self.bytes.clear();
            self.held.push(char::REPLACEMENT_CHARACTER);
        }
        std::mem::take(&mut self.held)
    }

    /// Moves what is complete from `self.bytes` and `bytes` to `self.held`.
    fn decode(&mut self, bytes: &[u8]) {
        let joined;
        let bytes = if self.bytes.is_empty() {
            bytes
        } else {
            self.bytes.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.bytes);
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.held.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_unfinished(invalid) {
                self.bytes.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                self.held.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// The stop string that is complete first, and where it starts. None of them ends within the
    /// first `clean` bytes, since those were searched before.
    fn first_stop(&self, clean: usize) -> Option<(usize, String)> {
        let mut first: Option<(usize, &String)> = None;
        for stop in &self.stops {
            let from = floor_boundary(&self.held, clean.saturating_sub(stop.len() - 1));
            let Some(found) = self.held[from..].find(stop.as_str()) else { continue };
            let end = from + found + stop.len();
            let earlier = first.is_none_or(|(other_end, other)| {
                end < other_end || (end == other_end && stop.len() > other.len())
            });
            if earlier {
                first = Some((end, stop));
            }
        }
        first.map(|(end, stop)| (end - stop.len(), stop.clone()))
    }

    /// The length in bytes of the longest ending that is the beginning of a stop string.
    fn possible_start(&self) -> usize {
        let of = |stop: &String| {
            let longest = self.held.len().min(stop.len() - 1);
            (1..=longest)
                .rev()
                .find(|&n| stop.is_char_boundary(n) && self.held.ends_with(&stop[..n]))
                .unwrap_or(0)
        };
        self.stops.iter().map(of).max().unwrap_or(0)
    }
}

/// Whether these bytes, which are no UTF-8, may become a character when more come.
fn is_unfinished(bytes: &[u8]) -> bool {
    let incomplete = |error: std::str::Utf8Error| error.error_len().is_none();
    std::str::from_utf8(bytes).is_err_and(incomplete)
}

/// The last character boundary at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stops(list: &[&str]) -> Vec<String> {
        list.iter().map(|&stop| stop.to_owned()).collect()
    }

    /// Everything that is sent for these pieces, and the stop string that ended it.
    fn run(stop: &[String], pieces: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let mut holder = TextHolder::new(stop);
        let mut sent = Vec::new();
        for piece in pieces {
            match holder.push(piece) {
                Pushed::Text(text) => sent.push(text),
                Pushed::Stopped { text, by } => {
                    sent.push(text);
                    return (sent, Some(by));
                }
            }
        }
        sent.push(holder.finish());
        (sent, None)
    }

    #[test]
    fn text_passes_at_once_when_nothing_is_incomplete() {
        let (sent, _) = run(&stops(&["STOP"]), &[b"Hel", b"lo", b" world"]);
        assert_eq!(sent, ["Hel", "lo", " world", ""]);
    }

    #[test]
    fn a_character_waits_for_its_last_byte() {
        let (sent, _) = run(&[], &[b"\xf0\x9f", b"\x98", b"\x80!"]);
        assert_eq!(sent, ["", "", "\u{1f600}!", ""]);
    }

    #[test]
    fn an_unfinished_character_is_sent_as_a_replacement_at_the_end() {
        let (sent, _) = run(&[], &[b"a", b"\xe2\x82"]);
        assert_eq!(sent, ["a", "", "\u{fffd}"]);
    }

    #[test]
    fn bytes_that_are_no_text_do_not_wait() {
        let (sent, _) = run(&[], &[b"\xff", b"\xc3", b"a"]);
        assert_eq!(sent, ["\u{fffd}", "", "\u{fffd}a", ""]);
    }

    #[test]
    fn a_stop_string_over_several_tokens_is_never_sent() {
        let (sent, by) = run(&stops(&["\n\nUser:"]), &[b"Yes.\n", b"\nUs", b"er: more"]);
        assert_eq!(sent, ["Yes.", "", ""]);
        assert_eq!(by.as_deref(), Some("\n\nUser:"));
    }

    #[test]
    fn a_false_start_is_sent_when_it_is_one() {
        let (sent, by) = run(&stops(&["abcd"]), &[b"xabc", b"x", b"ab"]);
        assert_eq!(sent, ["x", "abcx", "", "ab"]);
        assert_eq!(by, None);
    }

    #[test]
    fn the_stop_that_is_complete_first_wins_and_of_two_the_longer() {
        let (sent, by) = run(&stops(&["bcd", "b"]), &[b"abcd"]);
        assert_eq!((sent.concat().as_str(), by.as_deref()), ("a", Some("b")));
        let (sent, by) = run(&stops(&["d", "bcd"]), &[b"abcd"]);
        assert_eq!((sent.concat().as_str(), by.as_deref()), ("a", Some("bcd")));
    }

    #[test]
    fn a_stop_of_several_scripts() {
        let (sent, by) = run(&stops(&["終わり"]), &["これで終".as_bytes(), "わりです".as_bytes()]);
        assert_eq!(sent, ["これで", ""]);
        assert_eq!(by.as_deref(), Some("終わり"));
    }

    /// What must be sent, found by looking at each prefix of the whole text.
    fn reference(text: &str, stops: &[String]) -> (String, Option<String>) {
        for (start, character) in text.char_indices() {
            let so_far = &text[..start + character.len_utf8()];
            let complete = stops.iter().filter(|stop| so_far.ends_with(stop.as_str()));
            if let Some(stop) = complete.max_by_key(|stop| stop.len()) {
                return (so_far[..so_far.len() - stop.len()].to_owned(), Some(stop.clone()));
            }
        }
        (text.to_owned(), None)
    }

    fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    proptest! {
        /// Any cut of the same text gives the same answer, and what is sent early is a prefix of it.
        #[test]
        fn any_cut_gives_the_same_answer(
            text in "[abc€😀]{0,24}",
            stop in prop::collection::vec("[abc€😀]{1,4}", 0..4),
            cuts in prop::collection::vec(0usize..200, 0..12),
        ) {
            let (expected, expected_by) = reference(&text, &stop);
            let (sent, by) = run(&stop, &cut(text.as_bytes(), &cuts));
            prop_assert_eq!(by, expected_by);
            prop_assert_eq!(sent.concat(), expected);
        }

        /// Bytes that are no text come out as a lossy reading of the whole would, however cut.
        #[test]
        fn any_cut_of_any_bytes_is_the_lossy_text(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            cuts in prop::collection::vec(0usize..200, 0..12),
        ) {
            let (sent, _) = run(&[], &cut(&bytes, &cuts));
            prop_assert_eq!(sent.concat(), String::from_utf8_lossy(&bytes).into_owned());
        }

        /// Nothing waits that could have been sent: what is held is the beginning of a stop string
        /// or of a character.
        #[test]
        fn nothing_waits_without_a_reason(text in "[abcd]{0,24}", stop in "[abc]{1,4}") {
            let stop = vec![stop];
            let mut holder = TextHolder::new(&stop);
            let mut sent = String::new();
            for (at, byte) in text.bytes().enumerate() {
                match holder.push(&[byte]) {
                    Pushed::Text(text) => sent.push_str(&text),
                    Pushed::Stopped { .. } => break,
                }
                let held = &text[sent.len()..=at];
                prop_assert!(stop[0].starts_with(held), "{held:?} waits");
            }
        }
    }
}
