"""A tree of drafts in one pass: each row is what its own prefix alone gives, and only the verified path stays."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, FlashAttention
from specchat.llama.errors import ContextFull, LlamaError
from specchat.llama.model import Model
from specchat.llama.tree import can_branch, sequence_sets

Row = NDArray[np.float32]

PARENTS = (-1, 0, 0, 1, 1, 2, 0)
"""A root with three children; two leaves below the first, one below the second."""


@pytest.fixture(scope="module")
def model(tiny: Path) -> Iterator[Model]:
    with Model(tiny) as model:
        yield model


def context(model: Model, **options: object) -> Context:
    sizes = {"n_ctx": 256, "n_outputs_max": 8, "threads": 1, "n_batch": 64, "n_seq_max": 4} | options
    return Context(model, ContextParams(flash_attention=FlashAttention.OFF, **sizes))  # type: ignore[arg-type]


def prefix(tokens: Sequence[int], parents: Sequence[int], row: int) -> list[int]:
    above = [] if parents[row] < 0 else prefix(tokens, parents, parents[row])
    return [*above, tokens[row]]


def alone(ctx: Context, held: int, tokens: Sequence[int]) -> Row:
    """The last row after `tokens`, read one at a time; the context is left as it was."""
    rows: list[Row] = [ctx.decode([token])[0].copy() for token in tokens]
    ctx.truncate(held)
    return rows[-1]


def test_every_row_is_what_its_own_prefix_gives(demo: Path) -> None:
    with Model(demo) as model, context(model) as ctx, context(model, n_seq_max=1) as chain:
        text = model.vocab.tokenize("The capital of France is", add_special=True, parse_special=False)
        ctx.prefill(text)
        chain.prefill(text)
        tokens = [100, 200, 300, 400, 500, 600, 700]
        rows = ctx.decode_tree(tokens, PARENTS).copy()
        for row in range(len(tokens)):
            expected = alone(chain, len(text), prefix(tokens, PARENTS, row))
            assert np.array_equal(rows[row], expected)
        # The text goes on from the path that was kept as if it had been read plainly.
        assert ctx.keep_path([0, 2, 5])
        assert ctx.tokens == [*text, 100, 300, 600]
        chain.decode([100, 300, 600])
        for token in (11, 12, 13):
            assert np.allclose(ctx.decode([token]), chain.decode([token]), rtol=0, atol=1e-3)


def test_any_tree_and_any_path_leave_the_cache_of_plain_reading(model: Model) -> None:
    chance = random.Random(5)
    with context(model) as ctx, context(model, n_seq_max=1) as chain:
        ctx.prefill([1, 40, 50])
        chain.prefill([1, 40, 50])
        for _ in range(60):
            if len(ctx.tokens) > 200:
                assert ctx.truncate(3)
                assert chain.truncate(3)
            kept = _random_tree(chance, ctx)
            held = len(chain.tokens)
            if kept:
                chain.decode(kept, outputs=0)
            assert ctx.tokens == chain.tokens
            assert len(chain.tokens) == held + len(kept)
            probe = [chance.randrange(280) for _ in range(2)]
            # Not to the last bit: rejected rows leave gaps, so the kept ones lie in other cells and are summed in
            # another order. A row that saw a wrong cell would differ by whole units.
            assert np.allclose(ctx.decode(probe), chain.decode(probe), rtol=0, atol=5e-3)
            back = chance.randrange(3)
            for each in (ctx, chain):
                assert each.truncate(len(each.tokens) - back)


def _random_tree(chance: random.Random, ctx: Context) -> list[int]:
    """Read a random tree, keep a random path of it; the tokens kept."""
    while True:
        parents = [chance.randrange(-1, row) for row in range(chance.randint(1, 8))]
        if len(set(range(len(parents))) - set(parents)) <= 4:
            break
    tokens = [chance.randrange(280) for _ in parents]
    ctx.decode_tree(tokens, parents)
    path: list[int] = []
    while chance.random() < 0.7:
        below = [row for row, parent in enumerate(parents) if parent == (path[-1] if path else -1)]
        if not below:
            break
        path.append(chance.choice(below))
    assert ctx.keep_path(path)
    return [tokens[row] for row in path]


def test_what_would_abort_the_process_is_refused_and_nothing_is_lost(model: Model) -> None:
    with context(model) as ctx:
        ctx.prefill([5] * 250)
        for tokens, parents in (
            ([], []),
            ([1] * 9, range(-1, 8)),
            ([1, 2], [-1]),
            ([1, 2], [0, -1]),
            ([1, 2], [-1, 1]),
            ([1, 2], [-1, -2]),
            ([1] * 5, [-1] * 5),
            ([1, -1], [-1, 0]),
            ([1, 10**6], [-1, 0]),
        ):
            with pytest.raises(LlamaError):
                ctx.decode_tree(tokens, parents)
        with pytest.raises(ContextFull):
            ctx.decode_tree([1] * 7, PARENTS)
        assert len(ctx.tokens) == 250
        ctx.decode_tree([1] * 6, PARENTS[:6])
        for path in ([1], [0, 3], [0, 1, 2], [6], [-1]):
            with pytest.raises(LlamaError, match="no path"):
                ctx.keep_path(path)
        assert ctx.keep_path([0, 1, 3])
        assert len(ctx.tokens) == 253
        with pytest.raises(LlamaError, match="no path"):
            ctx.keep_path([0])


def test_a_tree_that_nobody_judged_is_dropped(model: Model) -> None:
    with context(model) as ctx, context(model, n_seq_max=1) as chain:
        ctx.prefill([1, 40, 50])
        chain.prefill([1, 40, 50])
        expected = chain.decode([60]).copy()
        ctx.decode_tree([7, 8, 9], [-1, 0, 0])
        assert np.array_equal(ctx.decode([60]), expected)
        assert ctx.truncate(3)
        ctx.decode_tree([7, 8, 9], [-1, 0, 0])
        assert ctx.truncate(3)
        assert np.array_equal(ctx.decode_tree([60], [-1]), expected)
        ctx.clear()
        ctx.prefill([1, 40, 50])
        assert np.array_equal(ctx.decode([60]), expected)


def test_only_a_context_made_for_trees_reads_them(model: Model) -> None:
    with context(model, n_seq_max=1) as ctx:
        ctx.prefill([1, 2])
        with pytest.raises(LlamaError, match="reads no trees"):
            ctx.decode_tree([3, 4], [-1, 0])
        assert ctx.keep_path([])
        with pytest.raises(LlamaError, match="No tree"):
            ctx.keep_path([0])
    for leaves in (0, 9, 257):
        with pytest.raises(LlamaError, match="leaves"):
            context(model, n_seq_max=leaves)


def test_a_model_that_forgets_cells_on_its_own_reads_no_trees(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_branch(model)
    monkeypatch.setattr(model, "n_swa", 128)
    assert not can_branch(model)
    with pytest.raises(LlamaError, match="sliding window"):
        context(model)


def test_rows_carry_the_ids_of_the_leaves_below_them() -> None:
    assert sequence_sets(PARENTS, 4) == [[0, 1, 2, 3], [0, 1], [2], [0], [1], [2], [3]]
    assert sequence_sets((-1, 0), 3) == [[0, 1, 2], [0, 1, 2]]
    assert sequence_sets((-1, -1), 3) == [[0, 2], [1]]
