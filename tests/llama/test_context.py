"""Everything C would abort on is refused first, and the cache does what the loop believes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, FlashAttention, KVType
from specchat.llama.errors import ContextFull, LlamaError, PrefillCancelled
from specchat.llama.model import Model


@pytest.fixture(scope="module")
def model(tiny: Path) -> Iterator[Model]:
    with Model(tiny) as model:
        yield model


def context(model: Model, **options: object) -> Context:
    sizes = {"n_ctx": 256, "n_outputs_max": 8, "threads": 1, "n_batch": 64} | options
    return Context(model, ContextParams(**sizes))  # type: ignore[arg-type]


def test_what_would_abort_the_process_is_refused(model: Model) -> None:
    with context(model) as ctx:
        for tokens, outputs in (([], None), ([1] * 65, 0), ([1] * 9, 9), ([1], 2), ([-1], 1), ([10**6], 1)):
            with pytest.raises(LlamaError):
                ctx.decode(tokens, outputs=outputs)
        assert ctx.tokens == []
        assert ctx.decode([1] * 8).shape == (8, model.vocab.size)


def test_a_full_context_is_said_and_nothing_is_lost(model: Model) -> None:
    with context(model) as ctx:
        ctx.prefill([5] * 250)
        with pytest.raises(ContextFull):
            ctx.decode([5] * 7)
        assert len(ctx.tokens) == 250
        assert ctx.decode([5] * 6).shape[0] == 6


def test_sizes_that_make_no_context_are_refused(model: Model) -> None:
    for sizes in ({"n_ctx": 0}, {"n_outputs_max": 0}, {"threads": 0}, {"n_batch": 0}):
        with pytest.raises(LlamaError):
            context(model, **sizes)
    with pytest.raises(LlamaError, match="flash attention"):
        context(model, kv_type=KVType.Q8_0, flash_attention=FlashAttention.OFF)


def test_rolled_back_and_decoded_again_the_logits_are_the_same(model: Model) -> None:
    with context(model) as ctx:
        ctx.prefill([1, 40, 50, 60])
        first = ctx.decode([70, 80, 90]).copy()
        assert ctx.truncate(5)
        assert ctx.tokens == [1, 40, 50, 60, 70]
        assert np.array_equal(ctx.decode([80, 90]), first[1:])


def test_every_batch_size_gives_the_same_rows(demo: Path) -> None:
    """The ground that greedy identity stands on. On this CPU build the rows are equal to the last bit."""
    with Model(demo) as model, context(model, n_outputs_max=16) as ctx:
        tokens = model.vocab.tokenize("Once upon a time there was a " * 6, add_special=True, parse_special=False)
        ctx.prefill(tokens[:8])
        alone = [ctx.decode([token])[0].copy() for token in tokens[8:40]]
        for n in range(2, 17):
            ctx.truncate(8)
            for start in range(0, len(alone) - n + 1, n):
                rows = ctx.decode(tokens[8 + start : 8 + start + n])
                for row, single in zip(rows, alone[start:], strict=False):
                    if row.argmax() != single.argmax():
                        top = np.sort(single)[-2:]
                        assert top[1] - top[0] < 1e-3, f"batch of {n} forks at a top-2 gap of {top[1] - top[0]:.4f}"
                    assert np.abs(row - single).max() < 1e-3, f"batch of {n} differs; was llamafile built in?"


def test_prefill_can_be_stopped_and_continued(model: Model) -> None:
    with context(model) as ctx:
        seen: list[int] = []
        with pytest.raises(PrefillCancelled):
            ctx.prefill([7] * 200, cancelled=lambda: len(seen) >= 2, progress=seen.append)
        assert seen == [64, 128]
        assert len(ctx.tokens) == 128
        ctx.prefill([7] * 72)
        stopped = ctx.decode([8]).copy()
    with context(model) as ctx:
        ctx.prefill([7] * 200)
        assert np.array_equal(ctx.decode([8]), stopped)


def test_prefill_is_stopped_inside_a_chunk_on_a_cpu(demo: Path) -> None:
    with Model(demo) as model, context(model, n_ctx=1024, n_batch=512, n_outputs_max=1) as ctx:
        started = time.perf_counter()
        with pytest.raises(PrefillCancelled):
            ctx.prefill([100] * 512, cancelled=lambda: time.perf_counter() - started > 0.2)
        assert ctx.tokens == []
        ctx.prefill([100] * 16)
        assert len(ctx.tokens) == 16


def test_a_quantised_cache_works_or_says_why_not(model: Model, demo: Path) -> None:
    with Model(demo) as larger, context(larger, kv_type=KVType.Q8_0) as ctx:
        assert ctx.decode([1, 2, 3]).shape[0] == 3
    with pytest.raises(LlamaError, match="--kv f16"):
        context(model, kv_type=KVType.Q8_0)


def test_the_memory_is_tried_for_roll_back(model: Model) -> None:
    with context(model) as ctx:
        assert ctx.rolls_back()
        assert ctx.tokens == []
