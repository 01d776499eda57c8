"""Random lives of a transcript: answers, edits, regenerated and cancelled answers, cuts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from specchat.drafters.base import Drafter
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Step

SAMPLER = Sampler(SamplingParams(), acceptance_rule(AcceptanceMode.EXACT, 0))


def told(drafter: Drafter, ids: list[int]) -> Drafter:
    drafter.begin(ids, SAMPLER)
    return drafter


def proposed(drafter: Drafter, limit: int) -> list[int]:
    draft = drafter.propose(limit)
    assert draft.distributions is None
    return list(draft.ids)


def emitted(*tokens: int) -> Step:
    return Step(tokens, 0, 0, 0)


def live(drafter: Drafter, chance: random.Random, alphabet: int) -> Iterator[list[int]]:
    """Put the drafter through a random life; the ids it must hold, after every event."""

    def text(longest: int) -> list[int]:
        return [chance.randrange(alphabet) for _ in range(chance.randrange(longest))]

    ids = text(60)
    drafter.begin(ids, SAMPLER)
    yield ids
    for _ in range(chance.randrange(1, 20)):
        if chance.random() < 0.3:
            ids = ids[: chance.randrange(len(ids) + 1)] + text(12)
            drafter.begin(ids, SAMPLER)
        else:
            draft = proposed(drafter, chance.randrange(7))
            accepted = chance.randrange(len(draft) + 1)
            step = Step((*draft[:accepted], chance.randrange(alphabet)), accepted, len(draft), len(draft))
            drafter.commit(step)
            ids = [*ids, *step.tokens]
        yield ids


def agrees_with_a_fresh_one(make: Callable[[], Drafter], seed: int, alphabet: int) -> None:
    chance = random.Random(seed)
    drafter = make()
    for ids in live(drafter, chance, alphabet):
        limit = chance.randrange(9)
        assert proposed(drafter, limit) == proposed(told(make(), ids), limit)
        # Proposing again changes nothing.
        assert proposed(drafter, limit) == proposed(drafter, limit)
