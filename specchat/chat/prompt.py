"""From a conversation to the token ids the model reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from specchat.chat.message import Message
from specchat.chat.segment import Segment
from specchat.chat.template import ChatTemplate
from specchat.chat.vocabulary import Vocabulary

# Texts to tokenise a fragment behind, so that SentencePiece does not take it for the start of a text.
_ANCHORS = ("\n", "|", ".")


@dataclass(frozen=True)
class Prompt:
    """What the model reads before it answers."""

    token_ids: list[int]
    starts_in_reasoning: bool
    system_folded: bool


@dataclass(frozen=True)
class PromptBuilder:
    """Builds prompts for one model."""

    template: ChatTemplate
    vocabulary: Vocabulary

    def build(self, messages: Sequence[Message], *, enable_thinking: bool | None = None) -> Prompt:
        """The prompt for the next answer; raises TemplateError where the template can't lay the messages out."""
        rendered = self.template.render(messages, enable_thinking=enable_thinking)
        token_ids = encode(rendered.segments, self.vocabulary)
        return Prompt(token_ids, rendered.starts_in_reasoning, rendered.system_folded)


def encode(segments: Sequence[Segment], vocabulary: Vocabulary) -> list[int]:
    """Turn a laid-out conversation into token ids, BOS included where the model wants it.

    Control tokens come from the template's words only; contents are plain text whatever they spell. What lies
    between two control tokens is tokenised in one go, as it would be natively, so that a space the template leaves
    before a content still becomes part of its first word. An answer that carries the ids it was generated as keeps
    them, and stands where it stood when it was generated: the same prompt before it, token for token.
    """
    encoder = _Encoder(vocabulary)
    known = [_known_ids(segment, vocabulary) for segment in segments]
    asking = segments[-1].text if segments and not segments[-1].is_content else ""
    for segment, ids, following in zip(segments, known, [*known[1:], None], strict=True):
        if ids is not None:
            encoder.add_ids(ids)
        elif segment.is_content:
            encoder.add_plain(segment.text)
        else:
            encoder.add_template(segment.text, as_before=asking if following is not None else "")
    return _with_one_bos(encoder.finish(), vocabulary)


def _known_ids(segment: Segment, vocabulary: Vocabulary) -> list[int] | None:
    return generated_ids(segment.message, vocabulary) if segment.message and segment.is_whole else None


def generated_ids(message: Message, vocabulary: Vocabulary) -> list[int] | None:
    """The ids a message's content was generated as, without the reasoning before it and the end of turn after it.

    None where there are none, or where they don't spell the content: it was edited, or cut inside a token.
    """
    if message.token_ids is None:
        return None
    ids = list(message.token_ids)
    while ids and vocabulary.is_end_of_generation(ids[-1]):
        ids.pop()
    pieces = [vocabulary.piece(token) for token in ids]
    spelled, wanted = b"".join(pieces), message.content.strip()
    if spelled.decode("utf-8", errors="replace").strip() == wanted:
        return ids
    return _run_spelling(wanted.encode(), spelled, ids, list(accumulate(map(len, pieces), initial=0)))


def _run_spelling(wanted: bytes, spelled: bytes, ids: list[int], borders: list[int]) -> list[int] | None:
    """The ids at the start (a stop string followed) or at the end (reasoning came before) that spell `wanted`.

    `spelled` is what all ids spell, `borders` where each id begins in it; spaces around the text don't count.
    """
    first = len(spelled) - len(spelled.lstrip())
    if spelled.startswith(wanted, first):
        end = first + len(wanted)
        stop = bisect_left(borders, end)
        return ids[:stop] if not spelled[end : borders[stop]].strip() else None
    last = len(spelled.rstrip())
    if spelled.endswith(wanted, 0, last):
        begin = last - len(wanted)
        start = bisect_right(borders, begin) - 1
        return ids[start:] if not spelled[borders[start] : begin].strip() else None
    return None


class _Encoder:
    """Collects ids, holding back plain text until the control token or the known ids that end it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ids: list[int] = []
        self._plain = ""
        self._follows_text = False

    def add_plain(self, text: str) -> None:
        self._plain += text

    def add_ids(self, ids: list[int]) -> None:
        self._flush()
        if ids:
            self._ids += ids
            self._follows_text = bool(self._vocabulary.piece(ids[-1]))

    def add_template(self, text: str, as_before: str = "") -> None:
        """Add the template's words: control tokens as such, what stands around them joined to the neighbours.

        With `as_before` the text ends with the space that ends that one, see `_with_space_of`.
        """
        before, controls, after = self._parted(text)
        self._plain += before
        if controls:
            self._flush()
            self._ids += controls
            self._follows_text = False
        self._plain += _with_space_of(self._parted(as_before)[2], after) if as_before else after

    def _parted(self, text: str) -> tuple[str, list[int], str]:
        """Plain text, then ids from the first to the last control token, then plain text."""
        ids = self._vocabulary.tokenize(text, add_special=False, parse_special=True)
        places = [place for place, token in enumerate(ids) if not self._vocabulary.piece(token)]
        if not places:
            return "", [], text
        first, stop = places[0], places[-1] + 1
        return self._text_of(ids[:first]), ids[first:stop], self._text_of(ids[stop:])

    def finish(self) -> list[int]:
        self._flush()
        return self._ids

    def _text_of(self, ids: list[int]) -> str:
        """The text of ids that stand at the start or behind a control token."""
        text = b"".join(map(self._vocabulary.piece, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self._vocabulary.adds_space_prefix else text

    def _flush(self) -> None:
        if self._plain:
            self._ids += self._continued() if self._follows_text else self._tokenized(self._plain)
            self._plain, self._follows_text = "", True

    def _tokenized(self, text: str) -> list[int]:
        return self._vocabulary.tokenize(text, add_special=False, parse_special=False)

    def _continued(self) -> list[int]:
        """Ids of the held text where it follows other text, without the space SentencePiece would put before it."""
        if self._vocabulary.adds_space_prefix:
            for anchor in _ANCHORS:
                lead, ids = self._tokenized(anchor), self._tokenized(anchor + self._plain)
                if ids[: len(lead)] == lead:
                    return ids[len(lead) :]
        return self._tokenized(self._plain)


def _with_space_of(asking: str, text: str) -> str:
    """`text` with the space at its end that ends `asking`, where they differ in nothing else.

    Some templates put a space before an answer they lay out but not before one they ask for. The model wrote that
    space itself, or wrote none; its ids know.
    """
    header, space = _parted_at_end_space(text)
    asked, asked_space = _parted_at_end_space(asking)
    # Before the headers themselves the texts differ where a message is empty or the first.
    alike = header.endswith(asked) or asked.endswith(header)
    return header + asked_space if header and asked and alike and space.startswith(asked_space) else text


def _parted_at_end_space(text: str) -> tuple[str, str]:
    words = text.rstrip()
    return words, text[len(words) :]


def _with_one_bos(ids: list[int], vocabulary: Vocabulary) -> list[int]:
    """The same ids with BOS in front exactly once, or as the template left it where the model wants none."""
    if not vocabulary.adds_bos:
        return ids
    bos = vocabulary.tokenize("", add_special=True, parse_special=False)[:1]
    while bos and ids[:1] == bos:
        ids = ids[1:]
    return bos + ids
