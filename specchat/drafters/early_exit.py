"""Drafting with the target's own first layers (LayerSkip, Elhoushi et al. 2404.16710, section 4).

Weights and KV cache are the target's own: a draft token is a pass that stops after the exit layer, and a head cut
from the target (final norm and output matrix) that turns its hidden state into logits. A model that was not trained
for it leaves early with little agreement; `specchat.calibration.early_exit` fits a head to the layer, and what it
found is read here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.chain import sampled_chain
from specchat.drafters.kept import cache_directory, content_digest
from specchat.drafters.method import Method
from specchat.llama.context import Context
from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.head import Head, OutputEnd, cut_head
from specchat.llama.model import Model
from specchat.llama.taps import PartialPasses
from specchat.llama.vocab import Vocab
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

_SAME_LOGITS: Final = 0.02
"""How far the head's logits may lie from the target's, of the largest: other kernels round differently."""


_SMALL_VOCABULARY: Final = 8192


class EarlyExitUnavailable(LlamaError):
    """A target that can't draft for itself; the message says why."""


class EarlyExitDrafter:
    """Samples a chain of tokens from the target's state after `exit_layer`, on the target's own context.

    The loop keeps all ids but the last in the target's cache, and it is the loop's to change: `propose` reads its
    tokens past them and takes them back before it returns or raises, and proposes nothing when the cache holds other
    tokens than it was told of.
    """

    method = Method.EARLY_EXIT

    def __init__(
        self, target: Context, head: Head, exit_layer: int, is_end_of_generation: Callable[[int], bool]
    ) -> None:
        require_cache(target.model)
        _require_exit(target, head, exit_layer)
        self.exit_layer = exit_layer
        self._target = target
        self._head = head
        self._is_end = is_end_of_generation
        self._passes = PartialPasses(target)
        self._ids: list[int] = []
        self._sampler: Sampler | None = None
        # Tokens that the head has no row for can't be drafted.
        self._row: NDArray[np.float32] = np.full(target.model.vocab.size, -np.inf, dtype=np.float32)

    @property
    def extra_bytes(self) -> int:
        """Memory beyond the target's: the head's weights."""
        return self._head.size_bytes

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`; there is nothing to read, since the cache is the target's."""
        self._sampler = sampler
        self._ids = list(ids)

    def propose(self, limit: int) -> Draft:
        """Up to `limit` sampled tokens; drafting stops after a token that ends the answer.

        Raises DecodeFailed, with the target's cache as it was.
        """
        if self._sampler is None:
            raise RuntimeError("propose() came before begin().")
        pending = self._pending()
        limit = min(limit, self._target.n_ctx - len(self._ids))
        if limit <= 0 or not pending:
            return Draft()
        with self._passes:
            return sampled_chain(
                self._ids,
                pending,
                limit,
                logits=lambda tokens: self._all_tokens(
                    self._head.logits(self._passes.run(tokens, self.exit_layer)[-1])
                ),
                sampler=self._sampler,
                is_end_of_generation=self._is_end,
            )

    def _pending(self) -> list[int]:
        """The ids that the target has not read, in one pass's reach; none where it holds something else."""
        held = self._target.tokens
        pending = self._ids[len(held) :]
        reach = min(self._target.n_batch, self._target.params.n_outputs_max)
        if len(pending) > reach or self._ids[: len(held)] != held:
            return []
        return pending

    def _all_tokens(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._head.token_ids is None:
            return logits
        self._row[self._head.token_ids] = logits
        return self._row

    def commit(self, step: Step) -> None:
        """Follow the ids; the loop has brought the target's cache where it belongs."""
        self._ids.extend(step.tokens)

    def close(self) -> None:
        """Free the head; the target is not ours."""
        self._head.close()


def require_cache(model: Model) -> None:
    """Raise EarlyExitUnavailable for a model whose memory can't take drafted tokens back."""
    if model.recurrent:
        raise EarlyExitUnavailable(
            f"{model.name} keeps a running state that can't be rolled back, so it can't draft by early exit. "
            "Use --method none."
        )


def _require_exit(target: Context, head: Head, exit_layer: int) -> None:
    model = target.model
    if not 1 <= exit_layer <= model.n_layer:
        raise EarlyExitUnavailable(f"{model.name} has layers 1 to {model.n_layer}; it can't exit after {exit_layer}.")
    tokens = head.n_tokens if head.token_ids is None else int(head.token_ids[-1]) + 1
    if (
        head.width != model.n_embd
        or tokens > model.vocab.size
        or (head.token_ids is None and tokens != model.vocab.size)
    ):
        raise EarlyExitUnavailable(f"The head {head.path} was not cut from {model.name}. Delete it to cut it anew.")


def head_directory() -> Path:
    """Where heads and calibrations are kept; deleting it costs a second at the next start, and the calibrations."""
    return cache_directory() / "heads"


@dataclass(frozen=True, slots=True)
class ExitChoice:
    """After which layer to exit, and the head to use there."""

    layer: int
    head: Path
    calibrated: bool


def record_path(digest: str) -> Path:
    """Where the calibration of the target with this content digest is kept."""
    return head_directory() / f"{digest}-early-exit.json"


def _recorded(digest: str) -> ExitChoice | None:
    """What a calibration chose; None without a usable one."""
    try:
        record = json.loads(record_path(digest).read_text(encoding="utf-8"))
        choice = ExitChoice(int(record["exit_layer"]), head_directory() / Path(record["head"]).name, calibrated=True)
        read_header(choice.head)
    except (OSError, ValueError, KeyError, TypeError, ModelUnusable):
        return None
    return choice


def frequent_tokens(vocab: Vocab, counts: NDArray[np.int64] | None = None) -> NDArray[np.int64] | None:
    """The tokens worth drafting, ascending: a quarter of a large vocabulary; None for all of a small one.

    Reading the whole output matrix for every draft token costs as much as several layers (FR-Spec, 2502.14856,
    section 3). Those come first that `counts` [V] names most often, then the lowest ids: merges are learnt in order
    of frequency. Tokens that end an answer always belong to them. Without counts the lowest quarter of the demo's
    ids covers 87 to 90 % of English text, too little to draft with.
    """
    size = vocab.size
    if size <= _SMALL_VOCABULARY:
        return None
    counts = np.zeros(size, dtype=np.int64) if counts is None else counts
    order = np.argsort(-counts, kind="stable")
    ends = [token for token in range(size) if vocab.is_end_of_generation(token)]
    return np.union1d(order[: max(size // 4, _SMALL_VOCABULARY)], np.array(ends, dtype=np.int64))


def choose_exit(target: Model, exit_layer: int | None = None) -> ExitChoice:
    """The calibrated exit of `target`, else a plain one after half of its layers, or after `exit_layer`.

    A plain head is cut at the first call and kept under the target's content hash. Raises HeadNotCuttable, OSError
    when the cache directory can't be written.
    """
    digest = content_digest(target.path)
    recorded = _recorded(digest)
    if recorded is not None and exit_layer in (None, recorded.layer):
        return recorded
    head = head_directory() / f"{digest}-head.gguf"
    try:
        read_header(head)
    except ModelUnusable:
        cut_head(OutputEnd(target.path), head)
    return ExitChoice(exit_layer or (target.n_layer + 1) // 2, head, calibrated=False)


def open_early_exit(target: Context, *, exit_layer: int | None = None, gpu_layers: int = -1) -> EarlyExitDrafter:
    """The early-exit drafter of `target`, a context made with `layer_tap`.

    Raises EarlyExitUnavailable, HeadNotCuttable or TapMissing with a sentence for the user, OSError when the cache
    directory can't be written.
    """
    model = target.model
    require_cache(model)
    choice = choose_exit(model, exit_layer)
    head = Head(choice.head, threads=target.params.threads, gpu_layers=gpu_layers)
    try:
        drafter = EarlyExitDrafter(target, head, choice.layer, model.vocab.is_end_of_generation)
        if not choice.calibrated:
            require_same_logits(target, head)
    except BaseException:
        head.close()
        raise
    return drafter


def require_same_logits(target: Context, head: Head) -> None:
    """Check that the plain `head`, after all layers, gives the target's own logits; two passes over one token.

    Raises EarlyExitUnavailable where a model's end is not what its tensors say.
    """
    held, token = len(target.tokens), 0
    own = target.decode([token], outputs=1)[0].copy()
    target.truncate(held)
    with PartialPasses(target) as passes:
        state = passes.run([token], target.model.n_layer)[-1]
    if head.token_ids is not None:
        own = own[head.token_ids]
    if np.abs(head.logits(state) - own).max() > _SAME_LOGITS * np.abs(own).max():
        raise EarlyExitUnavailable(
            f"{target.model.name} does more after its last layer than a norm and a matrix, so it can't draft by early "
            "exit. Use another --method."
        )
