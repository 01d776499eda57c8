"""Drafting with whatever pays, step by step: the arms of `specchat.speculation.arms`, filled with drafters.

Free drafters (copied text) are asked at every step, or less often where their offers are never worth a verification;
a drafter that must read the prompt first is started once the answer is long enough to pay for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from specchat.drafters.base import Drafter, StateReader
from specchat.drafters.costs import Costs
from specchat.drafters.method import Method
from specchat.speculation.arms import PLAIN, Choice, Offer, Why
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

_ASK_START_EVERY = 4
"""Steps between two looks at whether a drafter is worth starting."""
_LONG_ANSWER = 64
_TRY_SHARE = 0.01
"""Of the time without a drafter, what starting it once more may cost: what was measured may have been a bad day."""
_LONGEST_PAUSE = 16
_PATIENCE = 8
"""Offers declined in a row before a free drafter is asked less often."""


@runtime_checkable
class Reader(Protocol):
    """A drafter with a cache of its own to fill before it drafts."""

    def missing(self, ids: Sequence[int]) -> int:
        """Tokens that `begin(ids)` would read."""


class _Free:
    """A free drafter, and how often it is asked."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self._declined = 0
        self._pause = 0
        self._wait = 0
        self._behind: list[Step] = []

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`."""
        self._behind.clear()
        self.drafter.begin(ids, sampler)

    def follow(self, step: Step) -> None:
        """Take note of a step. It is read when a draft is next asked for: many at once cost a third of one by one."""
        self._behind.append(step)

    def offer(self, limit: int) -> Draft:
        """What it would draft; nothing while it pauses."""
        if self._wait:
            self._wait -= 1
            return Draft()
        for step in self._behind:
            self.drafter.commit(step)
        self._behind.clear()
        return self.drafter.propose(limit)

    def judged(self, taken: bool) -> None:
        """Ask less often where offers are never worth their verification, at once again where one is."""
        if taken:
            self._declined = self._pause = 0
            return
        self._declined += 1
        if self._declined >= _PATIENCE:
            self._pause = min(max(1, 2 * self._pause), _LONGEST_PAUSE)
            self._wait, self._declined = self._pause, 0


class AutoDrafter:
    """Chooses drafter and depth from measured costs and outcomes; depth 0 is a choice.

    The loop tells it by `record` what each step brought and took. `method` is what the user chose: `auto`, or the one
    drafter whose depth is chosen here. The choice rests on the past alone, never on a token sampled for the step.
    """

    def __init__(
        self,
        costs: Costs,
        free: Mapping[str, Drafter],
        models: Mapping[str, Drafter],
        *,
        method: Method = Method.AUTO,
    ) -> None:
        self.method = method
        self.why: dict[Why, int] = {}
        """Steps of this answer by the reason of their choice."""
        self._costs = costs
        self._free = {name: _Free(drafter) for name, drafter in free.items()}
        self._models = dict(models)
        self._started: list[str] = []
        self._ids: list[int] = []
        self._emitted = 0
        self._sampler: Sampler | None = None
        self._choice = Choice(PLAIN, 0, Why.NOTHING_PAYS)
        self._remaining: int | None = None

    @property
    def name(self) -> str:
        """The method and its arms, for statistics."""
        arms = [getattr(free.drafter, "name", arm) for arm, free in self._free.items()]
        return self.method.value if self.method is not Method.AUTO else f"auto ({', '.join([*arms, *self._models])})"

    @property
    def notes(self) -> list[str]:
        """What the arms have to say to the user."""
        drafters = [*(free.drafter for free in self._free.values()), *self._models.values()]
        notes = [getattr(drafter, "note", None) for drafter in drafters]
        return [note for note in notes if isinstance(note, str)]

    def keeps(self, ids: Sequence[int]) -> int:
        """How many of the first `ids` the target may keep in its cache so that no arm misses a hidden state."""
        readers = [drafter for drafter in self._models.values() if isinstance(drafter, StateReader)]
        return min((reader.keeps(ids) for reader in readers), default=len(ids))

    def expect(self, remaining: int | None) -> None:
        """Hear how many tokens may still come at most; None: any number."""
        self._remaining = remaining

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`. Drafters with a cache to fill are started later, if it pays."""
        self._sampler = sampler
        self._costs.open()
        self._end_turn()
        self._ids, self._started, self.why = list(ids), [], {}
        for free in self._free.values():
            free.begin(ids, sampler)
        for name, drafter in self._models.items():
            if not isinstance(drafter, Reader):
                self._start(name, drafter, 0)

    def _end_turn(self) -> None:
        """Take note of the answer that is over."""
        if self._emitted:
            self._costs.start.record_answer(self._emitted)
        self._emitted = 0

    def _start(self, name: str, drafter: Drafter, missing: int) -> None:
        if self._sampler is None:
            raise RuntimeError("propose() came before begin().")
        started = time.perf_counter()
        drafter.begin(self._ids, self._sampler)
        elapsed = time.perf_counter() - started
        self._costs.start.record_start(missing, elapsed)
        self._costs.arms.begun(name, missing, elapsed)
        self._started.append(name)
        self._costs.declined_s = 0.0

    def _start_what_pays(self) -> None:
        for name, drafter in self._models.items():
            if name in self._started or not isinstance(drafter, Reader):
                continue
            missing = drafter.missing(self._ids)
            drafting, plain = self._costs.arms.expected_rates(name)
            again = self._may_try_again(missing)
            if again:
                self._costs.arms.invite(name)
            if again or self._costs.start.worth_starting(
                missing,
                self._emitted,
                drafting_tok_s=drafting,
                plain_tok_s=plain,
                limit=None if self._remaining is None else max(0, self._remaining - self._emitted),
            ):
                self._start(name, drafter, missing)

    def _may_try_again(self, missing: int) -> bool:
        cost_s = self._costs.start.start_s(missing)
        return cost_s is not None and cost_s <= _TRY_SHARE * self._costs.declined_s and self._emitted >= _LONG_ANSWER

    def propose(self, limit: int) -> Draft:
        """The draft of the best arm, of at most `limit` tokens; none where nothing pays, or nothing is asked for."""
        if limit <= 0:
            self._choice = Choice(PLAIN, 0, Why.ASKED_PLAIN)
            return Draft()
        if len(self._started) < len(self._models) and self._emitted % _ASK_START_EVERY == 0:
            self._start_what_pays()
        drafts = {name: draft for name, free in self._free.items() if len(draft := free.offer(limit))}
        offers = {name: Offer(len(draft), draft.match) for name, draft in drafts.items()}
        self._choice = choice = self._costs.arms.choose(offers, limit=limit, available=self._started)
        for name in drafts:
            self._free[name].judged(name == choice.arm)
        if not choice.depth:
            return Draft()
        if choice.arm in drafts:
            return Draft(drafts[choice.arm].ids[: choice.depth], source=choice.arm)
        return replace(self._models[choice.arm].propose(choice.depth), source=choice.arm)

    def commit(self, step: Step) -> None:
        """Let every arm follow the text."""
        self._ids.extend(step.tokens)
        self._emitted += len(step.tokens)
        for free in self._free.values():
            free.follow(step)
        for name in self._started:
            self._models[name].commit(step)

    def record(self, draft: Draft, step: Step, draft_s: float, verify_s: float) -> None:
        """Learn what the step brought and took, in seconds."""
        choice, context = self._choice, len(self._ids) - len(step.tokens)
        self.why[choice.why] = self.why.get(choice.why, 0) + 1
        if not self._started:
            self._costs.declined_s += draft_s + verify_s
        # A tree of so many nodes brought no more than this, also where its path ended untested: so it counts.
        tested = step.tested if draft.parents is None else min(len(draft), step.accepted + 1)
        self._costs.arms.record(choice, tested, step.accepted, draft_s, verify_s, context, drafted=len(draft))

    def close(self) -> None:
        """Keep what was measured for the next start, and free the arms."""
        self._end_turn()
        self._costs.keep()
        for free in self._free.values():
            free.drafter.close()
        for drafter in self._models.values():
            drafter.close()
