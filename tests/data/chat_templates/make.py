"""Makes renders.json: what Hugging Face's apply_chat_template renders of templates and conversations.

    python3 -m venv .venv && .venv/bin/pip install transformers jinja2
    .venv/bin/python make.py

The templates read `content` as texts, as lists of parts, or as either, and write JSON in all styles
that `tojson` has. A row that Hugging Face refuses is left out.
"""

import copy
import json
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

EITHER = (
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}[{{ m.content }}]"
    "{% else %}{% for part in m.content %}{% if part.type == 'text' %}({{ part['text'] }})"
    "{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
PARTS = (
    "{%- for m in messages -%}<{{ m['role'] }}>{%- for part in m['content'] -%}"
    "({{ part['text'] | trim }}){%- endfor -%}{%- endfor -%}"
)
FIRST = (
    "{% for m in messages %}{% set text = m.content if m.content is string else "
    "(m.content | selectattr('type', 'equalto', 'text') | list)[0].text %}<{{ text }}>{% endfor %}"
)
TEXT = "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '\n' }}{% endfor %}"


def user(content):
    return [{"role": "user", "content": content}]


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


def system(content, *rest):
    return [{"role": "system", "content": content}, *rest]


CONVERSATIONS = [
    user("Hello"),
    user(parts("Hello")),
    user(parts("a", "b")),
    user(parts("a", "", " b\n")),
    user(parts("größer", "你好", "😀")),
    system("Be brief.", *user(parts("a", "b"))),
    system(parts("Be", "brief."), *user("a")),
    [*user(parts("a", "b")), {"role": "assistant", "content": parts("c", "d")}, *user("e")],
]

ARGUMENTS = {
    "city": "Zürich 😀",
    "b": [1, 2.5, -0.0, 1e-7, 1e16, 1e22, 123456789012345680.0, True, None, 9007199254740993],
    "a": {"é": [], "z": {}, "Z": "\u007f\u0001\"\\/<>&'\t", "10": 1},
}
CALLED = [
    *user("hello"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "1",
                "type": "function",
                "function": {"name": "f", "arguments": json.dumps(ARGUMENTS)},
            }
        ],
    },
]
STYLES = [
    "",
    "()",
    "(indent=2)",
    "(indent=0)",
    "(indent='\\t')",
    "(indent=none)",
    "(indent=true)",
    "(indent=-1)",
    "(ensure_ascii=True)",
    "(ensure_ascii=False)",
    "(sort_keys=True)",
    "(sort_keys=true, indent=4)",
    "(separators=(',', ':'))",
    "(separators=[', ', ' = '])",
    "(separators=(',', ':'), indent=1)",
    "(separators=none)",
    "(true)",
    "(false, 2)",
    "(true, none, (',', ':'), true)",
]


def json_template(style):
    return (
        "{% for m in messages %}{% if m.content %}{{ m.content }}: {% endif %}"
        "{% for call in m.tool_calls or [] %}{{ call.function.arguments | tojson%s }}"
        "{% endfor %}{%% endfor %%}"
    ).replace("%s", style).replace("{%%", "{%").replace("%%}", "%}")


def rendered(template, messages):
    messages = copy.deepcopy(messages)
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    text, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=True)
    return text[0]


def main():
    pairs = [(t, c) for t in (EITHER, PARTS, FIRST, TEXT) for c in CONVERSATIONS]
    pairs += [(json_template(style), CALLED) for style in STYLES]
    rows = []
    for template, messages in pairs:
        if template == PARTS and any(isinstance(m["content"], str) for m in messages):
            # It would run through the letters; ours gets lists of one part.
            continue
        try:
            text = rendered(template, messages)
        except TypeError:
            continue
        rows.append({"template": template, "messages": messages, "text": text})
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    Path(__file__).with_name("renders.json").write_text(f"[\n{lines}\n]\n")


main()
