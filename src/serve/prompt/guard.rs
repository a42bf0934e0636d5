//! Keeps what a user typed apart from what the template wrote.
//!
//! A rendered prompt is one text; nothing in it says who wrote what. So wherever a user's text
//! spells a special token, or a part of one that the template could complete, a mark is put inside
//! the spelling before rendering and taken out after the text was cut at its special tokens. The
//! mark is a private-use character that the conversation does not contain.

use std::borrow::Cow;

use minijinja::Value;

use crate::api::chat::{Content, Message};

use super::python_json;
use super::specials::SpecialTokens;
use super::template::ContentForm;

/// The mark of one conversation.
pub struct Guard {
    mark: char,
}

/// Marks are taken from the last private-use plane.
const MARKS: std::ops::RangeInclusive<char> = '\u{100000}'..='\u{10FFFD}';

impl Guard {
    /// A guard whose mark none of the messages contains.
    pub fn for_messages(messages: &[Message]) -> Self {
        let taken = |mark: char| messages.iter().any(|message| mentions(message, mark));
        let mark = MARKS.into_iter().find(|&mark| !taken(mark));
        // 65,534 marks in use would take a body of 262,136 bytes of nothing else; then marks of
        // the user's own are lost from the prompt, and nothing worse.
        Self { mark: mark.unwrap_or(*MARKS.end()) }
    }

    /// A message as templates read it, with its texts marked.
    pub fn protect(&self, message: &Message, specials: &SpecialTokens, form: ContentForm) -> Value {
        let marked = |text: &str| self.insert(text, specials);
        let mut fields = vec![("role", Value::from(message.role.name()))];
        let part = |text: &str| {
            Value::from_pairs([("type", Value::from("text")), ("text", Value::from(marked(text)))])
        };
        let content = match (&message.content, form) {
            (None, _) => Value::from(()),
            (Some(Content::Text(text)), ContentForm::Parts) => Value::from(vec![part(text)]),
            (Some(Content::Text(text)), _) => Value::from(marked(text)),
            // What else a template that reads texts could be given of a list.
            (Some(Content::Parts(texts)), ContentForm::Text) => {
                Value::from(marked(&texts.join("\n")))
            }
            (Some(Content::Parts(texts)), _) => texts.iter().map(|text| part(text)).collect(),
        };
        fields.push(("content", content));
        for (key, text) in [("name", &message.name), ("tool_call_id", &message.tool_call_id)] {
            if let Some(text) = text {
                fields.push((key, Value::from(marked(text))));
            }
        }
        if let Some(calls) = &message.tool_calls {
            fields.push(("tool_calls", python_json::from_json(&self.insert_all(calls, specials))));
        }
        Value::from_pairs(fields)
    }

    /// A span of rendered text without its marks.
    pub fn remove<'a>(&self, span: &'a str) -> Cow<'a, str> {
        if span.contains(self.mark) {
            Cow::Owned(span.replace(self.mark, ""))
        } else {
            Cow::Borrowed(span)
        }
    }

    fn insert(&self, text: &str, specials: &SpecialTokens) -> String {
        let breaks = specials.breaks_in(text);
        let mut marked = String::with_capacity(text.len() + breaks.len() * self.mark.len_utf8());
        let mut start = 0;
        for at in breaks {
            marked.push_str(&text[start..at]);
            marked.push(self.mark);
            start = at;
        }
        marked.push_str(&text[start..]);
        marked
    }

    /// All strings within a value.
    fn insert_all(&self, value: &serde_json::Value, specials: &SpecialTokens) -> serde_json::Value {
        use serde_json::Value as Json;
        match value {
            Json::String(text) => Json::String(self.insert(text, specials)),
            Json::Array(items) => {
                Json::Array(items.iter().map(|item| self.insert_all(item, specials)).collect())
            }
            Json::Object(map) => {
                let entry = |(key, value): (&String, &Json)| {
                    (self.insert(key, specials), self.insert_all(value, specials))
                };
                Json::Object(map.iter().map(entry).collect())
            }
            other => other.clone(),
        }
    }
}

fn mentions(message: &Message, mark: char) -> bool {
    let said = match &message.content {
        None => &[][..],
        Some(Content::Text(text)) => std::slice::from_ref(text),
        Some(Content::Parts(texts)) => texts,
    };
    let named = [&message.name, &message.tool_call_id].into_iter().flatten();
    said.iter().chain(named).any(|text| text.contains(mark))
        || message.tool_calls.as_ref().is_some_and(|calls| calls.to_string().contains(mark))
}
