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
    generation_prompt = segments[-1].text if segments and not segments[-1].is_content else ""
    for segment, ids, following in zip(segments, known, [*known[1:], None], strict=True):
        if ids is not None:
            encoder.add_ids(ids)
        elif segment.is_content:
            encoder.add_plain(segment.text)
        elif following is not None:
            encoder.add_template(_as_before_generation(segment.text, generation_prompt))
        else:
            encoder.add_template(segment.text)
    return _with_one_bos(encoder.finish(), vocabulary)


def _known_ids(segment: Segment, vocabulary: Vocabulary) -> list[int] | None:
    return generated_ids(segment.message, vocabulary) if segment.message and segment.is_whole else None


def _as_before_generation(text: str, generation_prompt: str) -> str:
    """Drop the space that some templates put before an answer they lay out but not before one they ask for.

    The model wrote that space itself, or wrote none: its ids know.
    """
    header, expected_header = text.rstrip(), generation_prompt.rstrip()
    space, expected_space = text[len(header) :], generation_prompt[len(expected_header) :]
    # What stands before the two headers differs where a message is empty or the first.
    alike = header.endswith(expected_header) or expected_header.endswith(header)
    if header and expected_header and alike and space.startswith(expected_space):
        return header + expected_space
    return text


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
        self._ids += ids
        self._follows_text = bool(ids) and bool(self._vocabulary.piece(ids[-1]))

    def add_template(self, text: str) -> None:
        """Add the template's words: control tokens as such, what stands around them joined to the neighbours."""
        ids = self._vocabulary.tokenize(text, add_special=False, parse_special=True)
        controls = [place for place, token in enumerate(ids) if not self._vocabulary.piece(token)]
        if not controls:
            self._plain += text
            return
        first, last = controls[0], controls[-1]
        self._plain += self._text_of(ids[:first])
        self._flush()
        self._ids += ids[first : last + 1]
        self._follows_text = False
        self._plain = self._text_of(ids[last + 1 :])

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


def _with_one_bos(ids: list[int], vocabulary: Vocabulary) -> list[int]:
    """The same ids with BOS in front exactly once, or as the template left it where the model wants none."""
    if not vocabulary.adds_bos:
        return ids
    bos = vocabulary.tokenize("", add_special=True, parse_special=False)[:1]
    while bos and ids[:1] == bos:
        ids = ids[1:]
    return bos + ids
