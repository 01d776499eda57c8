"""Every character of an answer is shown once, in its channel, with the origin of the token that completed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.chat.turn import StopStrings, Turn
from specchat.speculation.step import Step
from specchat.worker.messages import Span
from specchat.worker.spans import Provenance

# The kind of a character says where its token came from, so that each span can be judged by its own text.
_OWN = {"bonus": (0, 0, 1), "corrected": (0, 1, 1), "plain": (0, 0, 0)}


def _origin(character: str) -> str:
    if character.isdigit():
        return "corrected"
    if character.isupper() or character in "É":
        return "bonus"
    return "plain" if character in "<>/ \né" else "accepted"


_TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<thi", "</", "<", " ", "\n", "END", "EN", "é", "É", "漢", "👍", "7"])
    | st.text("abX1", min_size=1, max_size=4),
    max_size=14,
).map("".join)


@dataclass
class _Bytes:
    """A vocabulary of pieces; a token is its index."""

    pieces: list[bytes]

    def piece(self, token: int) -> bytes:
        return self.pieces[token]

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        raise NotImplementedError

    def is_end_of_generation(self, token: int) -> bool:
        return False

    bos_text = eos_text = ""
    adds_bos = adds_space_prefix = False


def _tokens(text: str, cuts: Sequence[int]) -> list[tuple[bytes, str]]:
    """Pieces of one origin each: runs of equal origin, cut anywhere, characters broken where that stays unambiguous."""
    pieces: list[tuple[bytes, str]] = []
    for i, character in enumerate(text):
        data, origin = character.encode(), _origin(character)
        cut = cuts[i % len(cuts)] if cuts else 0
        if len(data) > 1 and cut % 2:
            # The first bytes come with a token of any origin: the one that completes the character counts.
            pieces += [(data[: 1 + cut % (len(data) - 1)], "plain"), (data[1 + cut % (len(data) - 1) :], origin)]
        elif pieces and pieces[-1][1] == origin and cut % 3 == 0 and not _unfinished(pieces[-1][0]):
            pieces[-1] = (pieces[-1][0] + data, origin)
        else:
            pieces.append((data, origin))
    return pieces


def _unfinished(data: bytes) -> bool:
    return "\ufffd" in data.decode(errors="replace")


def _steps(origins: Sequence[str], together: Sequence[int]) -> Iterator[Step]:
    """Steps that give the tokens 0, 1, … these origins, accepted ones together with what follows where so drawn."""
    at = 0
    while at < len(origins):
        end = at
        while end < len(origins) and origins[end] == "accepted":
            end += 1
        if end > at and (end == len(origins) or origins[end] == "plain" or together[at % len(together)]):
            yield Step(tuple(range(at, end)), accepted=end - at, tested=end - at, drafted=end - at)
        elif end > at:
            rejected = int(origins[end] == "corrected")
            size = end - at
            yield Step(tuple(range(at, end + 1)), accepted=size, tested=size + rejected, drafted=size + rejected)
            end += 1
        else:
            accepted, tested, drafted = _OWN[origins[at]]
            yield Step((at,), accepted, tested, drafted)
            end = at + 1
        at = end


class _Answer:
    """Feeds steps to the watcher as the loop does."""

    def __init__(self, steps: Iterator[Step], watcher: StopStrings) -> None:
        self._steps, self._watcher = steps, watcher

    def __iter__(self) -> Iterator[Step]:
        for step in self._steps:
            keep = self._watcher.take(step.tokens)
            if keep is not None:
                yield step.cut(keep)
                return
            yield step


def _run(pieces: list[bytes], steps: Iterator[Step], stops: list[str], *, starts_open: bool) -> tuple[Turn, list[Span]]:
    vocabulary = _Bytes(pieces)
    watcher = StopStrings(vocabulary, stops)
    turn = Turn(_Answer(steps, watcher), watcher, starts_in_reasoning=starts_open)  # type: ignore[arg-type]
    provenance = Provenance(vocabulary, starts_in_reasoning=turn.starts_in_reasoning)
    return turn, [span for progress in turn for span in provenance.spans(progress)]


def _channel(spans: list[Span], channel: str) -> str:
    return "".join(span.text for span in spans if span.channel == channel)


_NUMBERS = st.lists(st.integers(0, 5), min_size=1, max_size=8)
_STOPS = st.lists(st.sampled_from(["END", "NK>", "nk>", "</", "hi", "X1"]), max_size=2)


@settings(deadline=None, max_examples=200)
@given(_TEXTS, _NUMBERS, _NUMBERS, _STOPS, st.booleans())
def test_spans_are_the_text_and_each_has_its_tokens_origin(
    text: str, cuts: list[int], together: list[int], stops: list[str], starts_open: bool
) -> None:
    tokens = _tokens(text, cuts)
    steps = _steps([origin for _, origin in tokens], [n % 2 for n in together])
    turn, spans = _run([data for data, _ in tokens], steps, stops, starts_open=starts_open)
    assert _channel(spans, "answer") == turn.text
    assert _channel(spans, "reasoning") == turn.reasoning
    for span in spans:
        assert {_origin(character) for character in span.text} == {span.origin}


@settings(deadline=None)
@given(st.lists(st.binary(max_size=4), max_size=12), st.booleans())
def test_bytes_that_are_no_text_lose_nothing(pieces: list[bytes], starts_open: bool) -> None:
    steps = (Step((i,), 1, 1, 1) for i in range(len(pieces)))
    turn, spans = _run(pieces, steps, [], starts_open=starts_open)
    assert _channel(spans, "answer") == turn.text
    assert _channel(spans, "reasoning") == turn.reasoning


def test_a_half_character_belongs_to_the_token_that_completes_it() -> None:
    first, second = "👍".encode()[:2], "👍".encode()[2:]
    steps = iter([Step((0,), 0, 0, 0), Step((1,), 1, 1, 1)])
    _, spans = _run([b"a" + first, second], steps, [], starts_open=False)
    assert spans == [Span("answer", "a", "plain"), Span("answer", "👍", "accepted")]
