//! Bytes in, events out: the incremental decoder of an event stream.
//!
//! The same bytes give the same events, however they are cut. Lines end at LF, CRLF or CR and at
//! nothing else (U+2028 is text). An event ends at a blank line; one that the end of the stream
//! cuts off before its blank line is still delivered by [`Decoder::finish`], since servers forget
//! that line. Memory is bounded by [`EVENT_BYTES_MAX`].

/// The longest event, in bytes, that is read: four times the largest that a server was seen to
/// send (logprobs of a long prompt in one chunk).
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// What a stream is made of, as far as a client of a model has a use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// One event: its data lines, joined by LF. One that has but a name is told too: to a browser
    /// it would be none, but it may be the word `error`.
    Event {
        /// What the `event:` field said; empty if there was none.
        name: &'a [u8],
        /// The data, as bytes: not necessarily valid UTF-8. Empty if there was none.
        data: &'a [u8],
    },
    /// Lines that are no fields and begin like a JSON object, or a list of them: an error body that
    /// a server put into the stream without any framing. It ends with its last bracket, or where
    /// a field or a blank line comes before that.
    Stray(&'a [u8]),
}

/// An event or a line grew over [`EVENT_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read an event of more than {EVENT_BYTES_MAX} bytes")]
pub struct EventTooLong;

/// The decoder's state between two reads.
#[derive(Debug)]
pub struct Decoder {
    /// The part of a line that earlier reads brought.
    line: Vec<u8>,
    /// The event under construction: data lines, each followed by LF.
    data: Vec<u8>,
    /// The event's name.
    name: Vec<u8>,
    /// Whether the event has a data line, even an empty one.
    has_data: bool,
    /// JSON without framing, as far as it has come: lines, each followed by LF.
    stray: Vec<u8>,
    /// Its brackets that are still open.
    stray_depth: isize,
    /// The last byte was a CR that ended a line: a LF right after it belongs to it.
    after_cr: bool,
    /// No line has been read yet: a byte order mark may stand here.
    at_start: bool,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(EVENT_BYTES_MAX)
    }
}

impl Decoder {
    /// A decoder that refuses events and lines of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            name: Vec::new(),
            has_data: false,
            stray: Vec::new(),
            stray_depth: 0,
            after_cr: false,
            at_start: true,
            limit,
        }
    }

    /// Takes the next bytes and hands every item that they complete to `deliver`, in order.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut deliver: impl FnMut(Item<'_>),
    ) -> Result<(), EventTooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.check(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.check(end)?;
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..end], &mut deliver);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.take_line(&line, &mut deliver);
                line.clear();
                self.line = line; // Its memory is for the next one.
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The stream has ended: delivers what stood there without its last line ends.
    pub fn finish(&mut self, mut deliver: impl FnMut(Item<'_>)) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut deliver);
        }
        self.dispatch(&mut deliver);
    }

    fn check(&self, more: usize) -> Result<(), EventTooLong> {
        let held = self.line.len() + self.data.len() + self.name.len() + self.stray.len();
        if held + more > self.limit { Err(EventTooLong) } else { Ok(()) }
    }

    fn take_line(&mut self, line: &[u8], deliver: &mut impl FnMut(Item<'_>)) {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            return self.dispatch(deliver);
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if !matches!(field, b"" | b"data" | b"event" | b"error" | b"id" | b"retry") {
            return self.take_stray(line, deliver);
        }
        self.end_stray(deliver);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
                self.has_data = true;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Not in the standard: some servers name the field of a failure `error`.
            b"error" => {
                self.name.clear();
                self.name.extend_from_slice(field);
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
                self.has_data = true;
            }
            _ => {} // A comment, `id`, `retry`.
        }
    }

    /// A line that is no field: JSON without framing, or something that nobody defined.
    fn take_stray(&mut self, line: &[u8], deliver: &mut impl FnMut(Item<'_>)) {
        if self.stray.is_empty() && !begins_like_json(line) {
            return;
        }
        self.stray.extend_from_slice(line);
        self.stray.push(b'\n');
        self.stray_depth += brackets_opened(line);
        if self.stray_depth <= 0 {
            self.end_stray(deliver);
        }
    }

    fn end_stray(&mut self, deliver: &mut impl FnMut(Item<'_>)) {
        if let Some(json) = self.stray.strip_suffix(b"\n") {
            deliver(Item::Stray(json));
            self.stray = Vec::new();
            self.stray_depth = 0;
        }
    }

    fn dispatch(&mut self, deliver: &mut impl FnMut(Item<'_>)) {
        self.end_stray(deliver);
        if std::mem::take(&mut self.has_data) || !self.name.is_empty() {
            let data = self.data.strip_suffix(b"\n").unwrap_or_default();
            deliver(Item::Event { name: &self.name, data });
        }
        self.data.clear();
        self.name.clear();
    }
}

/// An object, or a list that begins with one: `[DONE]` is none.
fn begins_like_json(line: &[u8]) -> bool {
    match line.trim_ascii_start() {
        [b'{', ..] => true,
        [b'[', rest @ ..] => matches!(rest.trim_ascii_start(), [] | [b'{', ..]),
        _ => false,
    }
}

/// How many more brackets a line of JSON opens than it closes. Those in a text are text, and no
/// text goes on over a line's end.
fn brackets_opened(line: &[u8]) -> isize {
    let (mut opened, mut in_text, mut escaped) = (0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => opened += 1,
            b'}' | b']' if !in_text => opened -= 1,
            _ => {}
        }
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every item of a stream that is cut after each of `cuts` bytes, as (name, data) pairs.
    fn decode(stream: &[u8], cuts: &[usize]) -> Vec<(String, Vec<u8>)> {
        let mut items = Vec::new();
        let mut keep = |item: Item<'_>| match item {
            Item::Event { name, data } => {
                items.push((String::from_utf8_lossy(name).into_owned(), data.to_vec()));
            }
            Item::Stray(line) => items.push(("(stray)".to_owned(), line.to_vec())),
        };
        let mut decoder = Decoder::default();
        let mut rest = stream;
        for cut in cuts {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            decoder.push(now, &mut keep).unwrap();
            rest = later;
        }
        decoder.push(rest, &mut keep).unwrap();
        decoder.finish(&mut keep);
        items
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data)| ((*name).to_owned(), data.as_bytes().to_vec()))
            .collect();
        assert_eq!(decode(stream.as_bytes(), &[]), expected, "whole: {stream:?}");
        let ones = vec![1; stream.len()];
        assert_eq!(decode(stream.as_bytes(), &ones), expected, "byte by byte: {stream:?}");
    }

    #[test]
    fn line_ends_of_all_three_kinds_end_lines() {
        for end in ["\n", "\r\n", "\r"] {
            check(&format!("data: a{end}{end}data: b{end}{end}"), &[("", "a"), ("", "b")]);
        }
        check("data: a\r\n\rdata: b\n\r\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn the_space_after_the_colon_is_optional_and_only_one_is_taken() {
        check("data:a\n\ndata:  b\n\n", &[("", "a"), ("", " b")]);
    }

    #[test]
    fn several_data_lines_are_joined() {
        check("data: {\ndata: }\n\n", &[("", "{\n}")]);
        check("data\ndata\n\n", &[("", "\n")]);
    }

    #[test]
    fn a_mark_at_the_start_comments_and_other_fields_are_no_events() {
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("data: \u{feff}a\n\n", &[("", "\u{feff}a")]);
        check(": ping\n\nid: 7\nretry: 10\nfoo: bar\ndata: a\n\n:\n\n", &[("", "a")]);
        check("foo\n[DONE]\n[1]\ndata: a\n\n", &[("", "a")]);
    }

    #[test]
    fn names_and_the_error_field_are_told() {
        check("event: error\ndata: {}\n\ndata: a\n\n", &[("error", "{}"), ("", "a")]);
        check("error: {\"code\":500}\n\n", &[("error", "{\"code\":500}")]);
        check("event: error\n\ndata: a\n\n", &[("error", ""), ("", "a")]);
        check("event: error\ndata\n\n", &[("error", "")]);
        check("event:\n\nevent: error", &[("error", "")]);
    }

    #[test]
    fn json_without_framing_is_one_item_to_its_last_bracket() {
        fn stray(json: &str) -> (&str, &str) {
            ("(stray)", json)
        }
        check("{\"error\":\"x\"}\n", &[stray("{\"error\":\"x\"}")]);
        check("{\"a\":1}\n{\"b\":2}\n", &[stray("{\"a\":1}"), stray("{\"b\":2}")]);
        let pretty = "{\n \"data\": \"}\\\"}\\\\\",\n \"list\": [\n 1\n ]\n}";
        for end in ["", "\n", "\n\n"] {
            check(&format!("{pretty}{end}"), &[stray(pretty)]);
            check(&format!("[{pretty}]{end}"), &[stray(&format!("[{pretty}]"))]);
            check(&format!("[\n{pretty}\n]{end}"), &[stray(&format!("[\n{pretty}\n]"))]);
        }
        check(&format!("{pretty}\ndata: a\n\n"), &[stray(pretty), ("", "a")]);
        check("{\n\"a\":\ndata: b\n\n", &[stray("{\n\"a\":"), ("", "b")]);
        check("{\n\n\"a\":1}\n\ndata: b\n\n", &[stray("{"), ("", "b")]);
        check("data: a\n{\n}\n\n", &[stray("{\n}"), ("", "a")]);
    }

    #[test]
    fn json_without_framing_and_without_end_is_refused() {
        let mut decoder = Decoder::with_limit(100);
        let lines = "{\n".repeat(60);
        assert_eq!(decoder.push(lines.as_bytes(), |_| {}), Err(EventTooLong));
    }

    #[test]
    fn an_end_without_a_blank_line_still_delivers() {
        check("data: a\n\ndata: [DONE]", &[("", "a"), ("", "[DONE]")]);
        check("data: a\n", &[("", "a")]);
    }

    #[test]
    fn only_line_ends_end_a_line() {
        check("data: a\u{2028}b\u{85}c\u{b}d\n\n", &[("", "a\u{2028}b\u{85}c\u{b}d")]);
    }

    #[test]
    fn an_event_of_megabytes_is_read_and_one_over_the_limit_refused() {
        let text = "x".repeat(5 << 20);
        check_len(&format!("data: {text}\n\n"), text.len());
        let mut decoder = Decoder::with_limit(100);
        assert_eq!(decoder.push(&[b'x'; 101], |_| {}), Err(EventTooLong));
        let mut decoder = Decoder::with_limit(100);
        let lines = "data: 0123456789\n".repeat(20);
        assert_eq!(decoder.push(lines.as_bytes(), |_| {}), Err(EventTooLong));
    }

    fn check_len(stream: &str, len: usize) {
        let items = decode(stream.as_bytes(), &[1000; 1000]);
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].1.len(), len);
    }

    /// Pieces that a stream is made of, the odd ones more often than in life.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"data: ".to_vec()),
            Just(b"data:".to_vec()),
            Just(b"event: error".to_vec()),
            Just(b": comment".to_vec()),
            Just("\u{feff}".as_bytes().to_vec()),
            Just("é\u{2028}".as_bytes().to_vec()),
            Just(b"{\"a\":1}".to_vec()),
            prop::sample::select(vec!["{", "}", "[", "]", "\"", "\\", "\n\n"])
                .prop_map(|piece| piece.as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ]
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_events(
            pieces in proptest::collection::vec(piece(), 0..40),
            cuts in proptest::collection::vec(0_usize..9, 0..60),
        ) {
            let stream = pieces.concat();
            prop_assert_eq!(decode(&stream, &cuts), decode(&stream, &[]));
        }

        #[test]
        fn what_was_framed_comes_back(texts in proptest::collection::vec("[^\r\n]{0,30}", 0..10)) {
            let stream: String = texts.iter().map(|text| super::super::frame(text)).collect();
            let datas: Vec<_> = decode(stream.as_bytes(), &[]).into_iter().map(|i| i.1).collect();
            let expected: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            prop_assert_eq!(datas, expected);
        }
    }
}
