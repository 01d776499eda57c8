"""Incremental text: whatever the chunks, the text of the whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.chat.text import TextStream, visible

# Bytes around every edge of UTF-8: continuations, overlong forms, surrogates, beyond U+10FFFF, and plain text.
_EDGES = st.lists(
    st.sampled_from([b"a", b"\n", "é".encode(), "漢".encode(), "👍".encode()])
    | st.sampled_from([b"\xf0\x9f", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xe2\x82"]),
    max_size=12,
).map(b"".join)


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def _run(pieces: list[bytes], stops: list[str]) -> tuple[str, str | None]:
    stream = TextStream(stops)
    text = "".join(stream.feed(piece) for piece in pieces) + stream.finish()
    return text, stream.stop_string


def _read_character_by_character(text: str, stops: list[str]) -> tuple[str, str | None]:
    for end in range(len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            stop = max(ended, key=len)
            return text[: end - len(stop)], stop
    return text, None


@settings(deadline=None)
@given(st.binary() | _EDGES, st.lists(st.integers(min_value=0)))
def test_any_chunking_gives_the_text_of_the_whole(data: bytes, cuts: list[int]) -> None:
    assert _run(_cut(data, cuts), [])[0] == data.decode("utf-8", errors="replace")


_STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)


@settings(deadline=None)
@given(st.text("abc"), _STOPS, st.lists(st.integers(min_value=0)))
def test_stop_strings_are_found_as_if_characters_came_singly(text: str, stops: list[str], cuts: list[int]) -> None:
    assert _run(_cut(text.encode(), cuts), stops) == _read_character_by_character(text, stops)


def test_characters_come_out_as_soon_as_they_are_complete() -> None:
    stream = TextStream()
    assert stream.feed("é".encode()[:1]) == ""
    assert stream.feed("é".encode()[1:] + b"x") == "éx"


def test_only_a_possible_stop_string_is_held_back() -> None:
    stream = TextStream(["END"])
    assert stream.feed(b"the E") == "the "
    assert stream.feed(b"N") == ""
    assert stream.feed(b"T") == "ENT"
    assert stream.feed(b" EN") == " "
    assert stream.feed(b"D more") == ""
    assert (stream.stopped, stream.stop_string) == (True, "END")
    assert stream.feed(b"after") == ""
    assert stream.finish() == ""


def test_a_stop_string_inside_one_token_cuts_there() -> None:
    assert _run([b"one STOP two"], ["STOP"]) == ("one ", "STOP")


def test_a_stop_string_that_ends_only_with_the_flush_is_found() -> None:
    assert _run([b"a\xe2\x82"], ["\ufffd"]) == ("a", "\ufffd")


def test_what_was_held_back_comes_with_finish() -> None:
    stream = TextStream(["abc"])
    assert stream.feed(b"ab") == ""
    assert stream.finish() == "ab"
    assert not stream.stopped


def test_an_empty_stop_string_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"may not be empty.*\."):
        TextStream(["x", ""])


_NARROW = st.text(st.characters(max_codepoint=0x200))


@settings(deadline=None)
@given(_NARROW, _NARROW)
def test_cleaning_piece_by_piece_is_cleaning_the_whole(first: str, second: str) -> None:
    assert visible(first) + visible(second) == visible(first + second)


def test_no_control_character_but_newline_and_tab_is_visible() -> None:
    everything = "".join(map(chr, range(0x180)))
    kept = visible(everything)
    assert [c for c in kept if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0] == ["\t", "\n"]
    assert len(kept) == 0x180 - 0x20 + 2 - 0x21


def test_escape_sequences_become_harmless_and_line_ends_plain() -> None:
    assert visible("\x1b[31mred\x1b[0m\x9b2J\r\nnext\rover") == "[31mred[0m2J\nnextover"
