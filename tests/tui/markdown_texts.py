"""Markdown made at random, as models write it: every kind of block, nested and abutting."""

from __future__ import annotations

import random

_WORDS = [
    "the",
    "model",
    "drafts",
    "*all*",
    "tokens",
    "`at",
    "once`;",
    "**bold**",
    "[a",
    "link](http://a.b/c)",
    "x_y",
    "&",
    "<b>",
]


def sentence(rng: random.Random, words: int = 12) -> str:
    """Words in a row."""
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, words)))


def fence(rng: random.Random, lines: int = 12, indent: str = "") -> str:
    """A fenced code block."""
    language = rng.choice(["python", "", "nonsense", "c"])
    body = [
        rng.choice(
            ["def f(x):", "    return x  # why", '"""doc', 'end"""', "", "int a[3];", "/* open", "close */", "# t"]
        )
        for _ in range(rng.randint(0, lines))
    ]
    return "\n".join(indent + line for line in [f"```{language}", *body, "```"])


def bullets(rng: random.Random, depth: int = 0) -> str:
    """A list, sometimes spaced, sometimes nested, sometimes with code in it."""
    lines: list[str] = []
    mark = rng.choice(["-", "*", "1.", "7."])
    for index in range(rng.randint(1, 5)):
        symbol = f"{int(mark[:-1]) + index}." if mark[0].isdigit() else mark
        indent = "    " * depth
        lines.append(f"{indent}{symbol} {sentence(rng)}")
        chance = rng.random()
        if chance < 0.2 and depth < 2:
            lines.append(bullets(rng, depth + 1))
        elif chance < 0.3:
            lines += ["", fence(rng, 4, indent + "    ")]
        elif chance < 0.4:
            lines += ["", f"{indent}    {sentence(rng)}"]
        if rng.random() < 0.3:
            lines.append("")
    return "\n".join(lines)


def table(rng: random.Random) -> str:
    """A table."""
    columns = rng.randint(1, 4)
    rows = [" | ".join(sentence(rng, 3).replace("|", "") for _ in range(columns)) for _ in range(rng.randint(1, 5))]
    return "\n".join(
        [f"| {rows[0]} |", "|" + rng.choice(["---|", ":-:|", "--:|"]) * columns, *(f"| {r} |" for r in rows)]
    )


def document(seed: int, blocks: int = 12) -> str:
    """Blocks one after another, mostly with an empty line between."""
    rng = random.Random(seed)
    made: list[str] = []
    for _ in range(blocks):
        kind = rng.randrange(9)
        if kind == 0:
            made.append("#" * rng.randint(1, 6) + " " + sentence(rng))
        elif kind == 1:
            made.append(fence(rng, 70))
        elif kind == 2:
            made.append(table(rng))
        elif kind == 3:
            made.append("\n".join("> " + line for line in (sentence(rng), bullets(rng)) for line in line.split("\n")))
        elif kind == 4:
            made.append(rng.choice(["---", "***", sentence(rng) + "\n---", "    indented code\n    more"]))
        elif kind in (5, 6):
            made.append(bullets(rng))
        else:
            made.append("\n".join(sentence(rng, 30) for _ in range(rng.randint(1, 3))))
    return "".join(block + rng.choice(["\n\n", "\n\n", "\n\n", "\n"]) for block in made)
