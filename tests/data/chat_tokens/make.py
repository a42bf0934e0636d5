"""Makes counts.json: how many tokens Hugging Face's apply_chat_template gives each conversation.

    python3 -m venv .venv && .venv/bin/pip install transformers jinja2 gguf
    .venv/bin/python make.py ../../../models/smollm2-135m-instruct-bf16.gguf

Vocabulary, merges and template are those of the GGUF file. How text is cut before the merges are
applied is what SmolLM2's published tokenizer.json says: single digits, then GPT-2's byte level
(transformers' own GGUF reader leaves the digits out, and needs torch).
"""

import json
import sys
from pathlib import Path

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast
import transformers


def tokenizer_of(path):
    fields = GGUFReader(path).fields
    get = lambda key: fields[key].contents()
    tokens = get("tokenizer.ggml.tokens")
    types = get("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in get("tokenizer.ggml.merges")]
    bpe = BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges)
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=tokens[get("tokenizer.ggml.bos_token_id")],
        eos_token=tokens[get("tokenizer.ggml.eos_token_id")],
        chat_template=get("tokenizer.chat_template"),
    )


def user(*texts):
    """A conversation that begins with the user and alternates."""
    roles = ["user", "assistant"]
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


def system(text, *rest):
    return [{"role": "system", "content": text}, *user(*rest)]


def parts(*texts):
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]


CONVERSATIONS = {
    "hello": user("Hello"),
    "one letter": user("a"),
    "system": system("You are terse.", "Hello"),
    "developer": [{"role": "developer", "content": "You are terse."}, *user("Hello")],
    "empty system": system("", "Hello"),
    "empty content": user(""),
    "only spaces": user("   "),
    "only line ends": user("\n\n\n"),
    "leading blank lines": user("\n\nHello"),
    "trailing blank lines": user("Hello\n\n"),
    "both": user(" \n Hello \n "),
    "windows line ends": user("one\r\ntwo\r\n"),
    "tabs": user("\tif x:\n\t\treturn 1\n"),
    "several turns": user("Hi", "Hello! How can I help?", "Tell me a joke", "No.", "Please"),
    "system and turns": system("Be kind.\n", "Hi", "\nHello", "Why?"),
    "ends with the assistant": user("Write a story", "Once upon a time"),
    "two users in a row": [*user("one"), *user("two")],
    "system later": [*user("one", "two"), {"role": "system", "content": "Now be brief."}],
    "one part": parts("Hello"),
    "two parts": parts("Hello", "world"),
    "empty part": parts("", "x"),
    "no parts": parts(),
    "long": user("The quick brown fox jumps over the lazy dog. " * 40),
    "code": user("fn main() {\n    println!(\"{}\", 1 + 2);\n}\n"),
    "digits": user("In 1984, 3.14159 and 1000000 and 0x7fff, 12:34:56"),
    "json": user('{"a": [1, 2.5e-3, null], "b": "c\\n"}'),
    "markup": user("<html><body class='x'>&amp;</body></html>"),
    "angle brackets": user("a < b > c <| d |> << e >>"),
    "contractions": user("I'll say it's what they've done; don't, can't, we'd, I'm, you're"),
    "german": user("Fünf größere Übungen über Straßenbäume, äöüß"),
    "french": user("L'été, où çà et là, naïveté, œuvre"),
    "russian": user("Привет, как дела? Сегодня 25 марта."),
    "greek": user("Γειά σου Κόσμε, τί κάνεις;"),
    "chinese": user("你好，世界。今天天气怎么样？"),
    "japanese": user("こんにちは世界。カタカナとひらがなと漢字。"),
    "korean": user("안녕하세요 세계"),
    "arabic": user("مرحبا بالعالم، كيف حالك؟"),
    "hebrew": user("שלום עולם"),
    "hindi": user("नमस्ते दुनिया"),
    "thai": user("สวัสดีชาวโลก"),
    "emoji": user("😀 👩‍👩‍👧‍👦 🇩🇪 ✊🏽 ❤️"),
    "combining": user("e\u0301 n\u0303 Z\u0351\u036b\u0343"),
    "unusual spaces": user("a\u00a0b\u2003c\u200bd\ufeffe\u3000f"),
    "controls": user("a\u0001b\u007fc\u0085d"),
    "private use": user("\ue000\uf8ff\U00100000"),
    "many spaces": user("a" + " " * 37 + "b"),
    "punctuation": user("!!! ??? ... --- === ___ ~~~ ``` \"\" '' (([[{{"),
    "mixed": system("你是\n助手。", "Hi 你好\n\n", "Привет!\n", "\n 1 2  3   4"),
}


def flattened(messages):
    """The shape that this template reads. It adds texts up, so a list of parts is a TypeError to it
    at Hugging Face; they are joined by line ends. Developers count as the system. What templates
    that read lists make of them is in ../chat_templates."""
    def text(content):
        return content if isinstance(content, str) else "\n".join(p["text"] for p in content)

    def role(name):
        return "system" if name == "developer" else name

    return [{"role": role(m["role"]), "content": text(m["content"])} for m in messages]


def main():
    tokenizer = tokenizer_of(sys.argv[1])
    rows = []
    for name, messages in CONVERSATIONS.items():
        ids = tokenizer.apply_chat_template(
            flattened(messages), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        rows.append({"name": name, "messages": messages, "n_tokens": len(ids), "tokens": ids})
    out = {
        "made_by": f"transformers {transformers.__version__}, tests/data/chat_tokens/make.py",
        "conversations": rows,
    }
    lines = json.dumps(out, ensure_ascii=True, indent=None, separators=(", ", ": "))
    lines = lines.replace('{"name"', '\n{"name"').replace("]}]}", "]}\n]}")
    Path(__file__).with_name("counts.json").write_text(lines + "\n")


main()
