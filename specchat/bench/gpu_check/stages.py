"""What is measured with one pair, stage by stage; times in milliseconds, sizes in bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specchat.bench.gpu_check.rig import GREEDY, Rig, Written, settings_of, words
from specchat.bench.gpu_check.shapes import Plan
from specchat.fit.check import Check
from specchat.fit.demand import Bytes, ModelDemand
from specchat.fit.memory import nvidia_cards
from specchat.fit.pairs import Pair
from specchat.llama.context import Context
from specchat.llama.devices import machine
from specchat.llama.no_alloc import memory_breakdown
from specchat.speculation.params import SamplingParams
from specchat.speculation.theory import expected_tokens

Figures = dict[str, Any]

SAMPLERS = {
    "greedy": GREEDY,
    "T 0.8, k 40, p 0.95": SamplingParams(0.8, 40, 0.95, 0.05),
    "T 1, all": SamplingParams(1, 0, 1, 0),
}
_WARM_UP = 2
_HOST_DEPTH = 5
_USELESS = 0.05
_FEW = (1, 2, 4, 8, 9, 16, 32, 64)


def cards_used() -> int | None:
    """Bytes in use on all NVIDIA cards; None where there is none."""
    cards = nvidia_cards().values()
    return sum(card.total - card.free for card in cards) if cards else None


def predicted_fit(plan: Plan, target: Path, draft: Path) -> Figures:
    """What the fit check says before anything is loaded."""
    used = cards_used()
    with Check() as check:
        verdict = check.judge(Pair("pair", target, draft), settings_of(plan, target, draft))
    demand, memory = verdict.demand, verdict.memory
    return {
        "fits": verdict.fits,
        "exact": demand.exact,
        "on_device": demand.on_device,
        "total": demand.total,
        "largest_context": verdict.largest_context,
        "models": {"target": asdict(demand.target), "draft": asdict(demand.draft or ModelDemand())},
        "memory": asdict(memory),
        "cards_used": used,
    }


def held_fit(rig: Rig, predicted: Figures) -> Figures:
    """What llama.cpp holds after the load, part by part, beside what was predicted.

    `equal`: on the side that must fit. Caches and compute are compared everywhere; weights on a CPU that keeps them in
    another order are counted twice by llama.cpp (the mapped file, and the copy), which `equal` then shows.
    """
    held = {"target": asdict(_held(rig.target)), "draft": asdict(_held(rig.draft))}
    side = "device" if predicted["on_device"] else "host"
    pairs = [(held[name][side], predicted["models"][name][side]) for name in held]
    used, before = cards_used(), predicted["cards_used"]
    grown = None if used is None or before is None else used - before
    return {
        "models": held,
        "equal": all(ours == theirs for ours, theirs in pairs),
        "equal_but_weights": all(ours[part] == theirs[part] for ours, theirs in pairs for part in ("cache", "compute")),
        "cards_used": used,
        "cards_grown": grown,
        # Driver, CUDA context, pools: what llama.cpp's own count leaves out.
        "beyond_predicted": None if grown is None else grown - predicted["total"],
        "beyond_assumed": predicted["memory"]["overhead"] + predicted["memory"]["margin"],
    }


def _held(context: Context) -> ModelDemand:
    parts = memory_breakdown(context.handle)
    sides = {True: Bytes(), False: Bytes()}
    for part in parts:
        sides[part.on_gpu] += Bytes(part.weights, part.cache, part.compute)
    return ModelDemand(device=sides[True], host=sides[False])


def machine_facts() -> Figures:
    """Device, driver, build."""
    device, driver, build, version = machine()
    return {"device": device, "driver": driver.splitlines()[0] if driver else "", "build": build, "version": version}


def curve(context: Context, held: int, counts: Sequence[int], repeats: int) -> Figures:
    """T(n): median, least and 90th percentile of a pass over n tokens after `held` tokens, by n."""
    started = time.perf_counter()
    context.clear()
    context.prefill(words(held, context.model.vocab.size))
    context.decode([1])  # waits for the prefill
    reading = time.perf_counter() - started
    context.truncate(held)
    times: dict[int, list[float]] = {n: [] for n in counts}
    # Clocks rise and fall: a second sweep, long after the first, keeps that from looking like a shape of the curve.
    for _ in range(2):
        for n, measured in times.items():
            measured += _passes(context, n, held, -(-repeats // 2))
    return {"held": held, "prefill_tok_s": (held + 1) / reading, "rows": {n: _spread(ms) for n, ms in times.items()}}


def _passes(context: Context, n: int, held: int, repeats: int) -> list[float]:
    tokens = words(n, context.model.vocab.size)
    outputs = min(n, context.params.n_outputs_max)

    def once() -> None:
        context.decode(tokens, outputs=outputs)
        context.truncate(held)

    # The first passes of a size build its graph.
    return [_timed(once) for _ in range(_WARM_UP + repeats)][_WARM_UP:]


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"median": statistics.median(ordered), "least": ordered[0], "p90": ordered[int(0.9 * (len(ordered) - 1))]}


def _timed(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - started)


def target_curve(rig: Rig) -> Figures:
    """T(n) of the target for every n."""
    return curve(rig.target, rig.plan.prompt, range(1, rig.plan.rows + 1), rig.plan.repeats)


def long_curve(rig: Rig) -> Figures:
    """T(n) of the target for a few n in a long context."""
    return curve(rig.target, rig.plan.long, [n for n in _FEW if n <= rig.plan.rows], rig.plan.repeats)


def draft_costs(rig: Rig) -> Figures:
    """A pass of the draft, and a drafted token with all that Python does for it (greedy), by depth."""
    passes = curve(rig.draft, rig.plan.prompt, (1, 2), rig.plan.repeats)
    return {"pass": passes, "token": {depth: _chain(rig, depth) for depth in rig.plan.depths}}


def _chain(rig: Rig, depth: int) -> float:
    rig.begin_draft()
    times = [_timed(lambda: _proposed(rig, depth)) for _ in range(_WARM_UP + rig.plan.repeats)][_WARM_UP:]
    return statistics.median(times) / depth


def _proposed(rig: Rig, depth: int) -> None:
    rig.drafter.propose(depth)
    rig.draft.truncate(len(rig.prompt) - 1)


def host_times(rig: Rig) -> Figures:
    """Time of a step outside the passes, plain and with drafts of five tokens that are right at the rate 0.8."""
    text = rig.plainly().ids
    found = {}
    for name, params in SAMPLERS.items():
        plain, drafted = rig.plainly(params), rig.drafted(text, 0.8, _HOST_DEPTH, params)
        found[name] = {"plain": 1000 * plain.host_s, "drafted": 1000 * drafted.host_s, "depth": _HOST_DEPTH}
    return found


def oracle(rig: Rig, costs: Figures, say: Callable[[str], None]) -> Figures:
    """Speed-up with an oracle for a draft, by rate and depth, measured and as predicted from the costs.

    `costs`: the figures of the stages before. `speedup` is of this run, `expected` that of its steps' time with the
    tokens of the closed form in place of those that fell to it, `predicted` from T(n), draft and host alone;
    `free_speedup` is that of an oracle without a draft model, whose tokens cost nothing.
    """
    rig.plainly()  # warms up, and reads the prompt
    text = rig.plainly().ids
    runs = []
    for alpha in rig.plan.alphas:
        plain = rig.plainly()
        for depth in rig.plan.depths:
            run = rig.drafted(text, alpha, depth)
            free = rig.drafted_freely(text, alpha, depth)
            runs.append(
                {**_compared(plain, run, text, alpha, depth, costs), "free_speedup": plain.token_s / free.token_s}
            )
        say(f"  alpha {alpha}: " + ", ".join(f"k {r['depth']} {r['speedup']:.2f}" for r in runs if r["alpha"] == alpha))
    start = len(rig.prompt)
    walks = text[start:] == list(range(rig.prompt[-1] + 1, rig.prompt[-1] + 1 + len(text) - start))
    return {"runs": runs, "text_as_written": walks, "best": _best(rig.plan, costs)}


def chosen_depths(rig: Rig) -> Figures:
    """The speed-up where the depth of each step is chosen (`-k auto`), in a first and a second answer.

    A rate that pays nowhere is among them: there the choice has to be plain decoding.
    """
    text = rig.plainly().ids
    runs = []
    for alpha in (_USELESS, *rig.plan.alphas):
        chooser = rig.chooser(text, alpha)
        plain = rig.plainly()
        first, second = (rig.write(chooser, rig.plan.rows - 1) for _ in range(2))
        runs.append(
            {
                "alpha": alpha,
                "first_speedup": plain.token_s / first.token_s,
                "speedup": plain.token_s / second.token_s,
                "depths": dict(sorted(second.metrics.depths.items())),
                "same_text": first.ids == text == second.ids,
            }
        )
    return {"runs": runs}


def _compared(plain: Written, run: Written, text: list[int], alpha: float, depth: int, costs: Figures) -> Figures:
    closed = expected_tokens(alpha, depth)
    return {
        "alpha": alpha,
        "depth": depth,
        "speedup": plain.token_s / run.token_s,
        "expected": closed * plain.token_s / run.step_s,
        "predicted": predicted_speedup(costs, alpha, depth),
        "measured_alpha": run.metrics.alpha,
        "tokens_per_step": run.tokens / run.steps,
        "closed_form": closed,
        "plain_tok_s": 1 / plain.token_s,
        "tok_s": 1 / run.token_s,
        "step_ms": {"whole": 1000 * run.step_s, "host": 1000 * run.host_s, "draft": 1000 * run.draft_s / run.steps},
        "same_text": run.ids == text,
    }


def predicted_speedup(costs: Figures, alpha: float, depth: int) -> float:
    """E[τ]·(T(1) + h)/(T(γ+1) + γ·d + h), with the host's time h of a plain step and the cost d of a drafted token."""
    rows, host = costs["target_curve"]["rows"], costs["host"]["greedy"]["plain"]
    tokens = costs["draft"]["token"]
    draft = tokens[min(tokens, key=lambda known: abs(known - depth))]
    step = rows[depth + 1]["median"] + depth * draft + host
    return float(expected_tokens(alpha, depth) * (rows[1]["median"] + host) / step)


def _best(plan: Plan, costs: Figures) -> list[Figures]:
    """The depth that pays most at each rate, by the prediction, of all that were measured."""
    found = []
    for alpha in plan.alphas:
        speedup, depth = max((predicted_speedup(costs, alpha, depth), -depth) for depth in range(1, plan.rows))
        found.append({"alpha": alpha, "depth": -depth, "predicted": speedup})
    return found
