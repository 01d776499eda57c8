"""The target writes many answers at once, and every state and choice on the way is kept.

A pass over one token of each of 32 texts costs far less than 32 passes over one, and what the training needs (the
inputs of three layers, the probabilities of the next token) falls out of the very passes that write the text.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.prefix import common_prefix
from specchat.llama.context import Context, Logits
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import DecodeFailed, LlamaError
from specchat.llama.model import Model
from specchat.training.texts import CHOICES, Text

_UBATCH: Final = 256


class ManyTexts(Context):
    """A context that holds `slots` texts of up to `length` tokens, and hands out the inputs of `layers`.

    What all texts begin with is read once and copied. Raises what `Context` raises, HiddenStatesMissing for a target
    whose layers can't be read.
    """

    def __init__(self, model: Model, layers: tuple[int, ...], slots: int, length: int, threads: int) -> None:
        self._slots = slots
        self._beginning: list[int] = []
        super().__init__(
            model,
            ContextParams(
                n_ctx=(slots + 1) * length,
                n_outputs_max=slots + 1,
                threads=threads,
                n_batch=max(_UBATCH, slots),
                n_ubatch=max(_UBATCH, slots),
                layer_inputs=layers,
            ),
        )
        self._layers = layers
        self._arrays = _BatchArrays(self.n_batch, slots + 1)
        self._states_of_beginning = np.empty((0, len(layers) * model.n_embd), np.float16)
        # One more for the beginning: it lies last, since a pass reads texts that lie side by side.
        self._lengths = [0] * (slots + 1)

    def _native_params(self) -> Any:
        native = super()._native_params()
        # A stream of cells for each: attention then reads one text's cells and not all.
        native.n_seq_max, native.kv_unified = self._slots + 1, False
        return native

    @property
    def slots(self) -> int:
        """Texts held."""
        return self._slots

    def forget(self, slot: int) -> None:
        """Leave `slot` empty."""
        self._api.llama_memory_seq_rm(self._memory, slot, 0, -1)
        self._lengths[slot] = 0

    def begin_all_with(self, tokens: Sequence[int]) -> None:
        """From now on every text begins with `tokens`. Raises DecodeFailed."""
        self.forget(self._slots)
        self._beginning = list(tokens)
        if self._beginning:
            _, self._states_of_beginning = self._read(self._slots, tokens)

    def begin(self, slot: int, tokens: Sequence[int]) -> tuple[Logits, NDArray[np.float16]]:
        """A new text in `slot`; the logits [1, V] after its last token, the states [n, taps · width] of all.

        It must be longer than what all begin with. Raises DecodeFailed.
        """
        self.forget(slot)
        known = len(self._beginning)
        if list(tokens[:known]) != self._beginning or len(tokens) <= known:
            raise LlamaError("A text doesn't begin as all should.")
        if not known:
            return self._read(slot, tokens)
        self._api.llama_memory_seq_cp(self._memory, self._slots, slot, -1, -1)
        self._lengths[slot] = known
        logits, states = self._read(slot, tokens[known:])
        return logits, np.concatenate([self._states_of_beginning, states])

    def _read(self, slot: int, tokens: Sequence[int]) -> tuple[Logits, NDArray[np.float16]]:
        states = []
        for start in range(0, len(tokens), self.n_batch):
            piece = tokens[start : start + self.n_batch]
            logits = self._pass(piece, [slot] * len(piece), last_only=True)
            states.append(self._states())
        return logits, np.concatenate(states)

    def step(self, tokens: Sequence[int]) -> tuple[Logits, NDArray[np.float16]]:
        """Append a token to every text; the logits [slots, V] and states [slots, taps · width]. Raises DecodeFailed."""
        return self._pass(tokens, range(self._slots), last_only=False), self._states()

    def _pass(self, tokens: Sequence[int], slots: Sequence[int], *, last_only: bool) -> Logits:
        positions = []
        for slot in slots:
            positions.append(self._lengths[slot])
            self._lengths[slot] += 1
        struct = self._arrays.fill(tokens, positions, slots, last_only)
        status = self._api.llama_decode(self.handle, struct)
        if status != 0:
            raise DecodeFailed(f"llama.cpp could not compute the next tokens (status {status}). See its log.")
        self._hidden_rows().passed(len(tokens))
        return self._logits(1 if last_only else len(tokens))

    def _states(self) -> NDArray[np.float16]:
        states = np.concatenate([self.layer_input(layer) for layer in self._layers], axis=1)
        if np.abs(states).max() > np.finfo(np.float16).max:
            raise LlamaError("The target's states are too large to be kept in 16 bits.")
        return states.astype(np.float16)


class _BatchArrays:
    """A `llama_batch` whose rows belong to different texts."""

    def __init__(self, capacity: int, slots: int) -> None:
        from specchat.llama.library import library

        integers = ctypes.POINTER(ctypes.c_int32)
        self._token, self._pos = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
        self._n_seq, self._output = np.ones(capacity, np.int32), np.zeros(capacity, np.int8)
        self._names = [(ctypes.c_int32 * 1)(slot) for slot in range(slots)]
        self._of_slot = [ctypes.cast(name, integers) for name in self._names]
        self._seq_ids = (integers * capacity)()
        self._struct: Any = library().api.llama_batch()
        self._struct.token = self._token.ctypes.data_as(integers)
        self._struct.pos = self._pos.ctypes.data_as(integers)
        self._struct.n_seq_id = self._n_seq.ctypes.data_as(integers)
        self._struct.seq_id = ctypes.cast(self._seq_ids, ctypes.POINTER(integers))
        self._struct.logits = self._output.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))

    def fill(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], last_only: bool) -> Any:
        """The batch of these rows, with logits for all or for the last."""
        n = len(tokens)
        self._token[:n], self._pos[:n] = tokens, positions
        self._output[:n] = not last_only
        self._output[n - 1] = 1
        for i, slot in enumerate(slots):
            self._seq_ids[i] = self._of_slot[slot]
        self._struct.n_tokens = n
        return self._struct


@dataclass(slots=True)
class _Writing:
    """One text on its way."""

    tokens: list[int]
    n_prompt: int
    temperature: float
    states: list[NDArray[np.float16]] = field(default_factory=list)
    choices: list[NDArray[np.int32]] = field(default_factory=list)
    chances: list[NDArray[np.float16]] = field(default_factory=list)

    def take(self, logits: NDArray[np.float32], rng: np.random.Generator) -> int:
        """Keep what the row `logits` [V] says, and choose the next token."""
        ids, chances = top_choices(logits)
        self.choices.append(ids)
        self.chances.append(chances.astype(np.float16))
        if self.temperature > 0:
            sharpened = chances ** (1 / self.temperature)
            token = int(rng.choice(ids, p=sharpened / sharpened.sum()))
        else:
            token = int(ids[0])
        self.tokens.append(token)
        return token

    def text(self) -> Text:
        return Text(
            np.array(self.tokens, np.int32),
            self.n_prompt,
            np.concatenate(self.states),
            np.stack(self.choices),
            np.stack(self.chances),
        )


def top_choices(logits: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The CHOICES most probable tokens of a row of logits [V], best first, and their probabilities."""
    likely = np.argpartition(-logits, min(CHOICES, len(logits)) - 1)[:CHOICES]
    ids: NDArray[np.int32] = likely[np.argsort(-logits[likely], kind="stable")].astype(np.int32)
    best = float(logits[ids[0]])
    chances = np.exp(logits[ids].astype(np.float64) - best) / float(np.exp(logits - best).sum(dtype=np.float64))
    return ids, chances


def written_texts(
    context: ManyTexts,
    prompts: Sequence[Sequence[int]],
    most_answer: int,
    *,
    temperatures: Sequence[float] = (0.0,),
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Text]:
    """The target's answers to `prompts`, each of at most `most_answer` tokens, in the order in which they end.

    The prompts take turns with `temperatures`; 0 is greedy. When `stop()` says so, what is written so far of the
    others comes too. Raises DecodeFailed.
    """
    desk = _Desk(context, prompts, temperatures, rng)
    while desk.busy and not stop():
        yield from desk.finished(most_answer)
        desk.step()
    yield from desk.unfinished()


def _common(texts: Sequence[Sequence[int]]) -> list[int]:
    """The tokens that all texts begin with."""
    ordered = sorted(map(list, texts))
    return ordered[0][: common_prefix(ordered[0], ordered[-1], limit=len(ordered[0]))] if ordered else []


class _Desk:
    """A text in each slot of `context`, and the prompts that wait for one."""

    def __init__(
        self,
        context: ManyTexts,
        prompts: Sequence[Sequence[int]],
        temperatures: Sequence[float],
        rng: np.random.Generator,
    ) -> None:
        self._context = context
        self._waiting = zip(prompts, itertools.cycle(temperatures), strict=False)
        self._rng = rng
        self._slots: list[_Writing | None] = [None] * context.slots
        # All but the last token of the shortest may be common: that one is read for its logits.
        context.begin_all_with(_common([prompt[:-1] for prompt in prompts]))
        for slot in range(len(self._slots)):
            self._begin(slot)

    @property
    def busy(self) -> bool:
        """Whether there is a text to go on with."""
        return any(self._slots)

    def finished(self, most_answer: int) -> Iterator[Text]:
        """The texts that have come to their end; others begin in their place."""
        is_end = self._context.model.vocab.is_end_of_generation
        for slot, writing in enumerate(self._slots):
            if writing and (is_end(writing.tokens[-1]) or len(writing.tokens) - writing.n_prompt >= most_answer):
                yield writing.text()
                self._begin(slot)

    def unfinished(self) -> Iterator[Text]:
        """The texts on their way."""
        return (writing.text() for writing in self._slots if writing)

    def step(self) -> None:
        """Every text goes on by a token."""
        if not self.busy:
            return
        # An empty slot reads a token and forgets it: only texts that lie side by side are read in one pass.
        logits, states = self._context.step([writing.tokens[-1] if writing else 0 for writing in self._slots])
        for slot, writing in enumerate(self._slots):
            if writing:
                writing.states.append(states[slot : slot + 1])
                writing.take(logits[slot], self._rng)
            else:
                self._context.forget(slot)

    def _begin(self, slot: int) -> None:
        self._slots[slot] = None
        for prompt, temperature in itertools.islice(self._waiting, 1):
            writing = self._slots[slot] = _Writing(list(prompt), len(prompt), temperature)
            logits, states = self._context.begin(slot, prompt)
            writing.states.append(states)
            writing.take(logits[0], self._rng)
