"""Marks follow the characters they were put on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.chat.marked_text import MarkedText, Origin, mark_all, origin_of

_USER = Origin(0, "content")

# Upper-case letters are content, everything else is the template's.
_MIXED = st.text("abXY \n")


def _marked(text: str) -> str:
    runs = ("".join(run) for _, run in groupby(text, key=str.isupper))
    return MarkedText.joined(MarkedText.whole(run, _USER) if run.isupper() else run for run in runs)


def _content(text: str) -> str:
    return "".join(span.text for span in text.spans() if span.origin) if isinstance(text, MarkedText) else ""


_OPERATIONS: list[Callable[[str], str | list[str] | tuple[str, ...]]] = [
    lambda s: s.strip(),
    lambda s: s.strip("aX"),
    lambda s: s.lstrip(),
    lambda s: s.rstrip(),
    lambda s: s[1:-1],
    lambda s: s[::-1],
    lambda s: s[::2],
    lambda s: s[5:2],
    lambda s: s[-1:],
    lambda s: s * 2,
    lambda s: 2 * s,
    lambda s: "a" + s + "b",
    lambda s: s + s,
    lambda s: s.split("b"),
    lambda s: s.split("X", 1),
    lambda s: s.split(" a"),
    lambda s: s.split(),
    lambda s: s.split(None, 1),
    lambda s: s.rsplit("b", 1),
    lambda s: s.rsplit(None, 1),
    lambda s: s.partition("X"),
    lambda s: s.partition("b"),
    lambda s: s.removeprefix("a"),
    lambda s: s.removesuffix("X"),
    lambda s: s.replace("a", "bb"),
    lambda s: s.replace("X", ""),
    lambda s: s.replace("b", "a", 1),
    lambda s: list(s),
    lambda s: [s[i] for i in range(-len(s), len(s))],
    lambda s: list(reversed(s)),
    lambda s: str(s),
]


@pytest.mark.parametrize("number", range(len(_OPERATIONS)))
@settings(max_examples=25, deadline=None)
@given(text=_MIXED)
def test_an_operation_gives_the_plain_result_with_its_marks(number: int, text: str) -> None:
    operation = _OPERATIONS[number]
    plain, marked = operation(text), operation(_marked(text))
    assert marked == plain
    for part in [marked] if isinstance(marked, str) else marked:
        assert _content(part) == "".join(c for c in part if c.isupper())


def test_replacing_brings_in_the_marks_of_the_replacement() -> None:
    assert _content(MarkedText("aNb").replace("N", _marked("XY"))) == "XY"
    assert _content(_marked("aX").replace("", "b")) == "babXb"


def test_indexing_fails_as_a_plain_string_does() -> None:
    with pytest.raises(IndexError):
        _marked("X")[1]
    with pytest.raises(TypeError):
        _marked("X")["text"]  # type: ignore[index]


def test_the_safe_answer_marks_every_string() -> None:
    marked = mark_all(["a", ("b", 1)], _USER)
    assert [_content(marked[0]), _content(marked[1][0])] == ["a", "b"]
    assert mark_all("a", None) == "a"


def test_content_is_found_inside_lists_and_mappings() -> None:
    assert origin_of({"a": ["b", (_marked("X"),)]}) == _USER
    assert origin_of({_marked("X"): 1}) == _USER
    assert origin_of(["b", _marked("a")]) is None
