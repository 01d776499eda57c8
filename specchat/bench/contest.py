"""Methods, depths and temperatures over classes of prompts: everyone answers in turns, plain decoding among them."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from specchat.bench.entrants import PLAIN, Arm, Model, Ours
from specchat.bench.extent import Cell, Extent, left_out, planned
from specchat.bench.heat import Heat, PeerMaker, Told, with_opening
from specchat.bench.passes import measure_passes
from specchat.bench.prompts import BENCH_CLASSES
from specchat.bench.record import flash_attention_here
from specchat.bench.results import Contest, Missing
from specchat.drafters.method import Method
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError

_COPYING = (Method.PROMPT_LOOKUP, Method.SUFFIX, Method.REST)
_OWN_DEPTH = (Method.AUTO, Method.LOOKAHEAD)
_ALL_SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)
_SHARE_OF_PASSES = 0.1
"""Of the time that is allowed, for measuring T(n)."""


def arms_of(methods: Sequence[Method], depths: Sequence[int] = (), *, full: bool = False) -> list[Arm]:
    """The arms: each method at `depths`, else at 3 with forward passes and at 7 without; several of them if `full`."""
    found = list[Arm]()
    for method in methods:
        if method in _OWN_DEPTH:
            found.append(Arm(method))
            continue
        usual = ((3, 7, 15) if full else (7,)) if method in _COPYING else ((1, 2, 3, 5, 7) if full else (3,))
        found += [Arm(method, depth) for depth in depths or usual]
    return found


def oracles(alpha: float, depths: Sequence[int] = ()) -> list[Arm]:
    """Oracle arms of acceptance `alpha`."""
    return [Arm(Method.PROMPT_LOOKUP, depth, alpha) for depth in depths or (1, 3, 5, 7)]


def contest(
    model: Model, extent: Extent, arms: Sequence[Arm], told: Told = lambda _: None, peers: PeerMaker | None = None
) -> Contest:
    """Run it all; raises what opening the model for plain decoding raises.

    An interrupt ends it with what was measured; before the first answer it is raised.
    """
    started = time.perf_counter()
    found = Contest(model.model or "", extent, labels=[PLAIN.label], arms={PLAIN.label: PLAIN}, tokens=extent.tokens)
    waiting, done, number = deque(arms), set(_all_cells(extent)), 0
    with tempfile.TemporaryDirectory(prefix="specchat-bench-") as folder:
        try:
            while waiting or not number:
                with closing(Heat(model, Path(folder), found, told, number)) as heat:
                    opening = time.perf_counter()
                    heat.open(waiting)
                    opening_s = time.perf_counter() - opening
                    if not number:
                        _look_at(heat, found, arms, told)
                        if peers is not None:
                            opening = time.perf_counter()
                            heat.invite(peers)
                            opening_s += time.perf_counter() - opening
                    share = 1 - len(waiting) / len(arms) if arms else 1.0
                    deadline = None if extent.budget_s is None else started + extent.budget_s * share
                    done &= _run(heat, extent, opening_s, deadline, found, told)
                    number += 1
        except KeyboardInterrupt:
            if not found.samples:
                raise
            found.interrupted = True
            done = _answered_by_all(found)
            found.missing += [Missing(arm.label, "interrupted before its turn") for arm in waiting]
    found.seconds = time.perf_counter() - started
    found.left_out = left_out(extent, done, found.tokens)
    found.complete = not found.left_out and not found.interrupted
    return found


def _answered_by_all(found: Contest) -> set[Cell]:
    answers = [(Cell(s.round, s.kind, s.temperature), s.label) for s in found.samples]
    labels = {label for _, label in answers}
    return {cell for cell, _ in answers if labels == {label for other, label in answers if other == cell}}


def _all_cells(extent: Extent) -> list[Cell]:
    return [cell for number in range(extent.rounds) for cell in extent.cells(number)]


def _run(heat: Heat, extent: Extent, opening_s: float, deadline: float | None, found: Contest, told: Told) -> set[Cell]:
    """The rounds of one heat, or as many cells as end before `deadline`, but at least one; each cell is whole."""
    began = time.perf_counter()
    pace = heat.warm_up()
    pace = with_opening(pace, opening_s + time.perf_counter() - began)
    plan = planned(extent, pace, None if deadline is None else deadline - time.perf_counter())
    found.tokens, found.openings = min(found.tokens, plan.tokens), max(found.openings, 1)
    told(f"planned: {len(plan.cells)} of {len(_all_cells(extent))} prompts, about {plan.seconds:.0f} s")
    done, recent = set[Cell](), deque[float](maxlen=2)
    for place, cell in enumerate(_all_cells(extent), 1):
        anew = bool(done) and cell.round and cell == next(extent.cells(cell.round))
        anew = anew and plan.reopens and not heat.alone
        now = time.perf_counter()
        if done and deadline is not None and now + max(recent) + (pace.opening_s if anew else 0.0) > deadline:
            break
        if anew:
            heat.take_notes()
            try:
                heat.reopen()
            except LlamaError as error:
                found.notes.append(f"The contestants could not be opened for another round: {error}")
                break
            found.openings = max(found.openings, cell.round + 1)
            now = time.perf_counter()
        heat.answer(cell, plan.tokens, f"{place} of {max(place, len(plan.cells))}", backwards=place % 2 == 0)
        done.add(cell)
        recent.append(time.perf_counter() - now)
    heat.take_notes()
    return done


def _look_at(heat: Heat, found: Contest, arms: Sequence[Arm], told: Told) -> None:
    """Measure T(n) in a context of its own, after a prompt of the contest."""
    plain, extent = heat.entrants[0], found.extent
    assert isinstance(plain, Ours)
    engine = plain.session.engine
    deepest = max((arm.depth + 1 for arm in arms if arm.depth), default=1)
    largest = max(extent.largest_pass, min(deepest, _ALL_SIZES[-1]))
    sizes = sorted({n for n in _ALL_SIZES if n <= largest} | {arm.depth + 1 for arm in arms if arm.depth})
    params = engine.target.params
    found.threads, found.flash_attention = params.threads, flash_attention_here()
    wide = ContextParams(params.n_ctx, max(sizes), params.threads, kv_type=params.kv_type)
    prompt = plain.session.builder.build(BENCH_CLASSES[extent.kinds[0]][0]).token_ids
    limit = None if extent.budget_s is None else extent.budget_s * _SHARE_OF_PASSES
    with Context(engine.model, wide) as context:
        room = context.n_ctx - max(sizes)
        found.passes = measure_passes(context, prompt[:room], sizes, extent.cycles, told, limit_s=limit)
