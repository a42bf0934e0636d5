"""Long prompts: a document of about 1,500 words, then a question about it.

A kind of document is an opening, a paragraph for each of its items, and questions. A paragraph
takes one sentence from each slot; the facts in braces are drawn once for a paragraph (`facts`) or
once for the document (`cast`), so a paragraph agrees with itself. Every document begins with the
name of a place of its own, so that no two of them share even their first word.
"""

import re

from dice import Deck
from long_kinds import KINDS

# Places that do not exist: the answer can only come from the document.
BEGINNINGS = [
    "Ash", "Birch", "Crow", "Dun", "Elder", "Fern", "Glen", "Hazel", "Ivy", "Kings", "Lang",
    "Marsh", "North", "Oak", "Penn", "Quarry", "Raven", "Stone", "Thorn", "Upper", "West", "Wood",
]
ENDS = [
    "bridge", "bury", "combe", "dale", "field", "ford", "gate", "ham", "haven", "ley", "mere",
    "mouth", "stead", "ton", "wick",
]
PEOPLE = [
    "Adeyemi", "Bergmann", "Castellano", "Dvorak", "Eriksen", "Fontaine", "Gallagher", "Haddad",
    "Ivanova", "Jansen", "Kowalski", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov",
    "Quinn", "Rossi", "Sandoval", "Tanaka", "Underhill", "Varga", "Whitaker", "Yilmaz", "Zeller",
]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
]

# A document stops after the paragraph that brings it over this length: words, digits and marks,
# each of which is about one token. SmolLM2's tokenizer makes about 2,000 tokens of such a
# document, question included (prompts/README.md has the count).
LENGTH = 1_745


def length_of(text):
    return len(re.findall(r"[A-Za-z]+|[0-9]|[^\w\s]", text))


def draw(dice, facts):
    """One value for each fact: a pair of numbers is a range, a list is a choice."""
    return {
        name: dice.between(*values) if isinstance(values, tuple) else dice.pick(values)
        for name, values in facts.items()
    }


def document(dice, kind, place):
    """The text of one prompt."""
    people = dice.shuffled(PEOPLE)
    cast = dict(zip(("ann", "bob", "cat", "dan"), people), place=place)
    cast.update(draw(dice, kind.get("cast", {})))
    cast.update(year=dice.between(1988, 2024), month=dice.pick(MONTHS), day=dice.between(1, 28))

    opening = " ".join(sentence.format(**cast) for sentence in kind["opening"])
    decks = [Deck(dice, slot) for slot in kind["paragraph"]]
    paragraphs, length = [opening], length_of(opening)
    items = dice.shuffled(kind["items"]) if kind["order"] == "any" else kind["items"]
    for number, item in enumerate(items, start=1):
        facts = draw(dice, kind["facts"])
        facts.update(cast, item=item, number=number)
        heading = kind["heading"].format(**facts)
        text = " ".join(deck.draw().format(**facts) for deck in decks)
        paragraphs.append(f"{heading} {text}")
        length += length_of(heading) + length_of(text)
        if length > LENGTH:
            break
    else:
        raise AssertionError(f"{kind['name']}: too few items for a length of {LENGTH}")
    question = dice.pick(kind["questions"]).format(**cast)
    return "\n\n".join([*paragraphs, question])


def prompts(dice, count):
    """`count` documents as (kind, text), the kinds in turn."""
    places = dice.shuffled([first + last for first in BEGINNINGS for last in ENDS])
    assert len(places) >= count, f"only {len(places)} places can be named"
    kinds = [KINDS[number % len(KINDS)] for number in range(count)]
    return [(kind["name"], document(dice, kind, place)) for kind, place in zip(kinds, places)]
