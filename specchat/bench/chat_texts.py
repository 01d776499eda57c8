"""Texts for the chat to show, as long as asked for and always the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Final

CHARACTERS: Final = 4
"""Of a token, about what a tokenizer makes of English."""

_SENTENCE: Final = (
    "the model drafts several tokens and then **checks** them in one pass so that `accept` keeps what agrees with a "
    "distribution of its own while every *rejected* one is drawn anew from what is left of [it](https://example.org)"
)
_WORDS: Final = _SENTENCE.split()
_CODE: Final = (
    "def accept(draft, target, rng):",
    '    """Keep what agrees."""',
    "    for place, token in enumerate(draft):",
    "        if rng.random() >= min(1.0, target[place] / draft.q[place]):",
    "            return draft[:place]  # the rest was drafted after an error",
    "    return draft",
    "",
)


def mixed(tokens: int) -> str:
    """Headings, paragraphs, lists, tables and code in turn, `tokens` × 4 characters."""
    rng = random.Random(1)
    kinds: tuple[Callable[[random.Random], str], ...] = (_heading, _paragraph, _code, _bullets, _paragraph, _table)
    return _cut((kind(rng) for _ in count() for kind in kinds), tokens)


def one_fence(tokens: int) -> str:
    """A single block of code that is never closed."""
    rng = random.Random(2)
    return _cut(chain(["```python\n"], (f"{rng.choice(_CODE)}\n" for _ in count())), tokens)


def running(length: int, seed: int) -> str:
    """Running text of so many words, other ones for every seed from the first on."""
    return f"{seed} " + _sentence(random.Random(seed), length)


TEXTS: Final = {"mixed": mixed, "fence": one_fence}
"""By name; each takes a number of tokens."""


def _cut(blocks: Iterator[str], tokens: int) -> str:
    text = ""
    while len(text) < tokens * CHARACTERS:
        text += next(blocks)
    return text[: tokens * CHARACTERS]


def _sentence(rng: random.Random, length: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(length))


def _heading(rng: random.Random) -> str:
    return f"## {_sentence(rng, 4)}\n\n"


def _paragraph(rng: random.Random) -> str:
    return f"{_sentence(rng, rng.randint(30, 90))}.\n\n"


def _code(rng: random.Random) -> str:
    lines = [rng.choice(_CODE) for _ in range(rng.randint(5, 40))]
    return "\n".join(["```python", *lines, "```", "", ""])


def _bullets(rng: random.Random) -> str:
    mark = rng.choice(("-", "1."))
    return "".join(f"{mark} {_sentence(rng, rng.randint(3, 25))}\n" for _ in range(rng.randint(3, 9))) + "\n"


def _table(rng: random.Random) -> str:
    columns = rng.randint(2, 4)
    rows = ["| " + " | ".join(_sentence(rng, 2) for _ in range(columns)) + " |" for _ in range(rng.randint(3, 10))]
    return "\n".join([rows[0], "|" + "---|" * columns, *rows[1:], "", ""])
