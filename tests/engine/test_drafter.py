"""The model drafter is right after any edit, cut and cancel: as a fresh one that was told of the same tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.model import ModelDrafter
from specchat.drafters.prefix import keep_common_prefix
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step
from tests.engine.table_model import END, VOCABULARY, TableModel


def is_end(token: int) -> bool:
    return token == END


def sampler() -> Sampler:
    # Coupled draws depend on the position alone, so that two drafters can be compared.
    return Sampler(SamplingParams(temperature=0.8, repeat_penalty=1.2), acceptance_rule(AcceptanceMode.COUPLED, 5))


def fresh(ids: Sequence[int], limit: int) -> tuple[Draft, int]:
    context = TableModel(64, noise=1.0)
    drafter = ModelDrafter(context, VOCABULARY, is_end)
    drafter.begin(ids, sampler())
    return drafter.propose(limit), len(context.tokens)


@given(seed=st.integers(0, 10_000), length=st.integers(1, 30))
@settings(max_examples=120, deadline=None)
def test_after_any_history_it_proposes_as_a_fresh_one(seed: int, length: int) -> None:
    chance = random.Random(seed)
    context = TableModel(64, noise=1.0)
    drafter = ModelDrafter(context, VOCABULARY, is_end)
    ids = [chance.randrange(VOCABULARY) for _ in range(length)]
    drafter.begin(ids, sampler())
    for _ in range(chance.randrange(1, 12)):
        if chance.random() < 0.3:
            # An edit, a regenerate or a context cut: another transcript that shares some prefix.
            ids = ids[: chance.randrange(1, len(ids) + 1)]
            ids += [chance.randrange(VOCABULARY) for _ in range(chance.randrange(0, 4))]
            drafter.begin(ids, sampler())
        limit = chance.randrange(0, 6)
        draft = drafter.propose(limit)
        expected, cached = fresh(ids, limit)
        assert list(draft.ids) == list(expected.ids)
        # Without a proposal it may still be behind: what is missing is read when it is needed.
        assert len(context.tokens) == cached or (not draft.ids and len(context.tokens) < cached)
        accepted = chance.randrange(0, len(draft.ids) + 1)
        own = chance.randrange(VOCABULARY)
        step = Step((*draft.ids[:accepted], own), accepted, min(accepted + 1, len(draft.ids)), len(draft.ids))
        if len(ids) + len(step.tokens) > 60:
            break
        drafter.commit(step)
        ids = [*ids, *step.tokens]
        assert context.tokens == ids[: len(context.tokens)]


def test_drafting_stops_after_an_end_token() -> None:
    for seed in range(30):
        context = TableModel(64, seed=seed, end_bias=3.0)
        drafter = ModelDrafter(context, VOCABULARY, is_end)
        drafter.begin([1, 2, 3], sampler())
        ids = list(drafter.propose(8).ids)
        assert END not in ids[:-1]
        assert len(ids) == 8 or ids[-1] == END


def test_a_token_the_draft_does_not_know_stops_drafting_not_the_answer() -> None:
    context = TableModel(64)
    drafter = ModelDrafter(context, VOCABULARY - 2, is_end)
    drafter.begin([1, 2, VOCABULARY - 1], sampler())
    assert len(drafter.propose(4)) == 0


def test_it_never_proposes_ids_outside_the_shared_vocabulary() -> None:
    for seed in range(20):
        drafter = ModelDrafter(TableModel(64, seed=seed), 4, is_end)
        drafter.begin([1, 2, 3], sampler())
        assert all(token < 4 for token in drafter.propose(8).ids)


def test_drafting_stops_where_the_context_does() -> None:
    drafter = ModelDrafter(TableModel(8, end_bias=-50), VOCABULARY, is_end)
    drafter.begin([1, 2, 3, 4, 5], sampler())
    assert len(drafter.propose(6)) == 3


class Window(TableModel):
    """A cache that lost its old cells, as a sliding window does."""

    def can_keep(self, length: int) -> bool:
        return length >= len(self.tokens) - 2


def test_a_prefix_whose_cells_are_gone_is_read_again() -> None:
    context = Window(64)
    context.prefill([1, 2, 3, 4, 5, 6])
    assert keep_common_prefix(context, [1, 2, 3, 4, 5, 9, 9], limit=6) == 5
    context.prefill([9, 9])
    assert keep_common_prefix(context, [1, 2, 8, 8], limit=3) == 0
    assert context.tokens == []


class NoRollBack(TableModel):
    """A running state that can't be rolled back."""

    def truncate(self, length: int) -> bool:
        return length >= len(self.tokens)


def test_a_state_that_can_not_roll_back_is_built_anew() -> None:
    context = NoRollBack(64)
    context.prefill([1, 2, 3, 4])
    assert keep_common_prefix(context, [1, 2, 3, 4, 5], limit=4) == 4
    assert keep_common_prefix(context, [1, 2, 9], limit=2) == 0
