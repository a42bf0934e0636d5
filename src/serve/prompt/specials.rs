//! The special tokens of a vocabulary, found by their spelling in rendered text.
//!
//! A special token here is one that a tokenizer recognises only when told to (llama.cpp calls it a
//! control token). Tokens that it recognises in any text stay its own affair.

use crate::serve::inference::{Specials, TokenId, Tokenizer};

/// All special tokens, as a tree of their spellings' bytes.
pub struct SpecialTokens {
    /// The root is the first.
    nodes: Vec<Node>,
    n_bytes_max: usize,
}

#[derive(Default)]
struct Node {
    /// Sorted by byte.
    children: Vec<(u8, usize)>,
    token: Option<Special>,
}

#[derive(Clone, Copy)]
struct Special {
    id: TokenId,
    /// It swallows white space before it.
    strips_left: bool,
    /// It swallows white space after it.
    strips_right: bool,
}

/// A piece of rendered text.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A special token.
    Special(TokenId),
    /// Text between two of them; never empty.
    Text(&'a str),
}

impl SpecialTokens {
    /// Those of a model's vocabulary.
    pub fn of(tokenizer: &dyn Tokenizer) -> Self {
        let mut found = Self { nodes: vec![Node::default()], n_bytes_max: 0 };
        let (mut plain, mut spelling) = (Vec::new(), Vec::new());
        for id in 0..i32::try_from(tokenizer.info().n_vocab).unwrap_or(i32::MAX) {
            plain.clear();
            tokenizer.piece(id, Specials::AsText, &mut plain);
            if !plain.is_empty() {
                continue;
            }
            spelling.clear();
            tokenizer.piece(id, Specials::Recognise, &mut spelling);
            let Ok(text) = std::str::from_utf8(&spelling) else { continue };
            // A spelling that does not lead back to the token can't be what a template means.
            if !text.is_empty() && tokenizer.tokenize(text, Specials::Recognise) == [id] {
                let alone = |text: &str| tokenizer.tokenize(text, Specials::Recognise) == [id];
                found.insert(
                    text.as_bytes(),
                    Special {
                        id,
                        strips_left: alone(&format!(" \n{text}")),
                        strips_right: alone(&format!("{text} \n")),
                    },
                );
            }
        }
        found
    }

    fn insert(&mut self, spelling: &[u8], token: Special) {
        let mut node = 0;
        for &byte in spelling {
            node = match self.nodes[node].children.binary_search_by_key(&byte, |&(b, _)| b) {
                Ok(index) => self.nodes[node].children[index].1,
                Err(index) => {
                    let child = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[node].children.insert(index, (byte, child));
                    child
                }
            };
        }
        self.nodes[node].token = Some(token);
        self.n_bytes_max = self.n_bytes_max.max(spelling.len());
    }

    fn child(&self, node: usize, byte: u8) -> Option<usize> {
        let children = &self.nodes[node].children;
        children.binary_search_by_key(&byte, |&(b, _)| b).ok().map(|index| children[index].1)
    }

    /// The longest special token that `text` begins with, and the length of its spelling.
    fn at_start_of(&self, text: &[u8]) -> Option<(Special, usize)> {
        let (mut node, mut longest) = (0, None);
        for (index, &byte) in text.iter().enumerate() {
            let Some(child) = self.child(node, byte) else { break };
            node = child;
            if let Some(token) = self.nodes[node].token {
                longest = Some((token, index + 1));
            }
        }
        longest
    }

    /// Cuts rendered text at its special tokens.
    pub fn split<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut strips_right = false;
        let (mut start, mut at) = (0, 0);
        while at < text.len() {
            let Some((token, n_bytes)) = self.at_start_of(&text.as_bytes()[at..]) else {
                at += 1;
                continue;
            };
            push_text(&mut pieces, &text[start..at], strips_right, token.strips_left);
            pieces.push(Piece::Special(token.id));
            strips_right = token.strips_right;
            at += n_bytes;
            start = at;
        }
        push_text(&mut pieces, &text[start..], strips_right, false);
        pieces
    }

    /// Where spellings begin in a text that somebody typed: whole ones, and those that could be
    /// completed by what the template puts before or after it. Ascending byte offsets at which a
    /// break makes every one of them harmless.
    pub fn breaks_in(&self, text: &str) -> Vec<usize> {
        let bytes = text.as_bytes();
        let mut breaks = Vec::new();
        if self.some_spelling_ends_at_start_of(bytes) {
            breaks.push(0);
        }
        for at in 0..bytes.len() {
            if self.begins_or_could_begin(&bytes[at..]) {
                breaks.push(at + first_char_len(&text[at..]));
            }
        }
        breaks.dedup();
        breaks
    }

    /// Whether a whole spelling stands at the start, or all of it is the beginning of one.
    fn begins_or_could_begin(&self, bytes: &[u8]) -> bool {
        let mut node = 0;
        for &byte in bytes {
            let Some(child) = self.child(node, byte) else { return false };
            node = child;
            if self.nodes[node].token.is_some() {
                return true;
            }
        }
        node != 0
    }

    /// Whether a proper ending of some spelling stands at the start.
    fn some_spelling_ends_at_start_of(&self, bytes: &[u8]) -> bool {
        // From every inner node, walk along the text; reaching a token means an ending matched.
        (1..self.nodes.len()).any(|inner| {
            let mut node = inner;
            for &byte in bytes.iter().take(self.n_bytes_max) {
                let Some(child) = self.child(node, byte) else { return false };
                node = child;
                if self.nodes[node].token.is_some() {
                    return true;
                }
            }
            false
        })
    }
}

fn push_text<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str, trim_start: bool, trim_end: bool) {
    let text = if trim_start { text.trim_start() } else { text };
    let text = if trim_end { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}

fn first_char_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// Bytes of the longest token of a vocabulary.
pub fn longest_token(tokenizer: &dyn Tokenizer) -> usize {
    let mut piece = Vec::new();
    let length = |id| {
        piece.clear();
        tokenizer.piece(id, Specials::Recognise, &mut piece);
        piece.len()
    };
    let n_vocab = i32::try_from(tokenizer.info().n_vocab).unwrap_or(i32::MAX);
    (0..n_vocab).map(length).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::inference::Model;
    use crate::serve::inference::scripted::{END_OF_TURN, Reply, START_OF_TURN, ScriptedModel};

    fn specials() -> SpecialTokens {
        SpecialTokens::of(ScriptedModel::new(|_| Reply::words("")).tokenizer().as_ref())
    }

    #[test]
    fn text_is_cut_at_special_tokens() {
        let specials = specials();
        assert_eq!(
            specials.split("<|im_start|>é\n<|im_end|><|im_end|>"),
            [
                Piece::Special(START_OF_TURN),
                Piece::Text("é\n"),
                Piece::Special(END_OF_TURN),
                Piece::Special(END_OF_TURN)
            ]
        );
        assert_eq!(specials.split("<|im_ start|>"), [Piece::Text("<|im_ start|>")]);
        assert_eq!(specials.split(""), []);
    }

    #[test]
    fn white_space_goes_where_a_token_swallows_it() {
        let mut specials = SpecialTokens { nodes: vec![Node::default()], n_bytes_max: 0 };
        specials.insert(b"<e>", Special { id: 7, strips_left: false, strips_right: true });
        specials.insert(b"<m>", Special { id: 8, strips_left: true, strips_right: false });
        assert_eq!(
            specials.split("a <e> \nb \n<m> c"),
            [
                Piece::Text("a "),
                Piece::Special(7),
                Piece::Text("b"),
                Piece::Special(8),
                Piece::Text(" c")
            ]
        );
    }

    #[test]
    fn breaks_stand_inside_spellings_whole_and_begun() {
        let specials = specials();
        assert_eq!(specials.breaks_in("a<|im_end|>b"), [2]);
        assert_eq!(specials.breaks_in("a<|im_e"), [2]);
        assert_eq!(specials.breaks_in("im_end|>b<"), [0, 10]);
        assert_eq!(specials.breaks_in("plain < text"), Vec::<usize>::new());
        assert_eq!(specials.breaks_in(""), Vec::<usize>::new());
    }
}
