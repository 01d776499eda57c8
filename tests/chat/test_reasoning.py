"""What a model thinks and what it answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.chat.reasoning import Channel, ReasoningSplit


def _split(pieces: list[str], *, starts_open: bool = False) -> tuple[str, str]:
    split = ReasoningSplit(starts_open=starts_open)
    parts = [part for piece in pieces for part in split.feed(piece)] + split.finish()
    assert all(text for _, text in parts)
    texts = {channel: "".join(text for c, text in parts if c is channel) for channel in Channel}
    return texts[Channel.REASONING], texts[Channel.ANSWER]


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "hm\n", "Yes."),
        (" \n<think>hm</think>Yes.", "hm", "Yes."),
        ("Yes. <think>no</think>", "", "Yes. <think>no</think>"),
        ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
        ("<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("<think>never closed </thin", "never closed </thin", ""),
        ("<thin", "", "<thin"),
        ("  Yes.", "", "  Yes."),
        ("a</think>b", "", "a</think>b"),
        ("", "", ""),
        (" \n", "", " \n"),
        ("<think><think>x</think>y", "<think>x", "y"),
    ],
)
def test_reasoning_opens_at_the_start_only(text: str, reasoning: str, answer: str) -> None:
    assert _split([text]) == (reasoning, answer)
    assert _split(list(text)) == (reasoning, answer)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [("\nhm</think> Yes.", "hm", "Yes."), ("never closed", "never closed", ""), ("</think>Yes.", "", "Yes.")],
)
def test_a_prompt_that_opened_the_tag_starts_inside(text: str, reasoning: str, answer: str) -> None:
    assert _split([text], starts_open=True) == (reasoning, answer)
    assert _split(list(text), starts_open=True) == (reasoning, answer)


_TEXT = st.lists(st.sampled_from(["<think>", "</think>", " ", "\n", "<", "</", "th", "ink>", "a"]), max_size=10)


@settings(deadline=None)
@given(_TEXT.map("".join), st.lists(st.integers(min_value=0)), st.booleans())
def test_chunks_make_no_difference(text: str, cuts: list[int], starts_open: bool) -> None:
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert _split(pieces, starts_open=starts_open) == _split([text], starts_open=starts_open)


def test_text_that_can_be_no_tag_is_not_held_back() -> None:
    split = ReasoningSplit()
    assert split.feed("<thin") == []
    assert split.feed("g>") == [(Channel.ANSWER, "<thing>")]
    split = ReasoningSplit()
    assert split.feed("<think>a </") == [(Channel.REASONING, "a ")]
    assert split.is_reasoning
    assert split.feed("think>b") == [(Channel.ANSWER, "b")]
    assert not split.is_reasoning


def test_other_tags_can_be_named() -> None:
    split = ReasoningSplit("[THINK]", "[/THINK]")
    assert split.feed("[THINK]a[/THINK]b") == [(Channel.REASONING, "a"), (Channel.ANSWER, "b")]
