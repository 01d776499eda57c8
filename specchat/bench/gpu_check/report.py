"""What was found, for people: one line a stage, and a table a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Figures = Mapping[str, Any]

_SHOWN = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32, 48, 64)


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def _fit(found: Figures) -> str:
    kind = "llama.cpp's own allocator" if found["exact"] else "by formula"
    verdict = "fits" if found["fits"] else "does not fit"
    memory = found["memory"]
    return f"{_gib(found['total'])} ({kind}) {verdict} into {_gib(memory['free'])} free of {memory['device']}"


def _load(found: Figures) -> str:
    if "unavailable" in found:
        return f"{found['seconds']:.1f} s to load; {found['unavailable']}"
    exact = "to the byte as predicted" if found["equal"] else "NOT as predicted"
    if not found["equal"] and found["equal_but_weights"]:
        exact = "as predicted but for the weights (a CPU keeps some in another order)"
    grown = found["cards_grown"]
    card = "" if grown is None else f"; the card holds {_gib(grown)} more, {_gib(found['beyond_predicted'])} beyond it"
    return f"{found['seconds']:.1f} s to load; {exact}{card}"


def _rows(found: Figures) -> dict[int, float]:
    """Medians by n; the keys are texts once they have been JSON."""
    return {int(n): ms["median"] for n, ms in found["rows"].items()}


def _curve(found: Figures) -> str:
    rows = _rows(found)
    points = ", ".join(f"{n}: {rows[n]:.2f}" for n in _SHOWN if n in rows)
    return f"T(n) after {found['held']} tokens, ms: {points}; reads {found['prefill_tok_s']:.0f} tok/s"


def _draft(found: Figures) -> str:
    tokens = ", ".join(f"k {depth}: {ms:.2f}" for depth, ms in found["token"].items())
    return f"a pass {_rows(found['pass'])[1]:.2f} ms; a drafted token with its sampling, ms: {tokens}"


def _host(found: Figures) -> str:
    parts = [
        f"{name}: {times['plain']:.2f}, {times['drafted']:.2f}" for name, times in found.items() if name != "took_s"
    ]
    return "a step's time in Python, plain and drafted, ms: " + "; ".join(parts)


def _oracle(found: Figures) -> str:
    best = max(found["runs"], key=lambda run: run["speedup"])
    same = all(run["same_text"] for run in found["runs"])
    texts = "every text is the plain one" if same else "TEXTS DIFFER from the plain one"
    if not found["text_as_written"]:
        texts += ", WHICH IS NOT what the weights say"
    return f"best {best['speedup']:.2f} at alpha {best['alpha']}, k {best['depth']}; {texts}"


def _chosen(found: Figures) -> str:
    runs = ", ".join(f"alpha {run['alpha']}: {run['first_speedup']:.2f}, {run['speedup']:.2f}" for run in found["runs"])
    same = "" if all(run["same_text"] for run in found["runs"]) else "; TEXTS DIFFER from the plain one"
    return f"with chosen depths, first and second answer: {runs}{same}"


_LINES: dict[str, Callable[[Figures], str]] = {
    "fit": _fit,
    "machine": lambda found: f"{found['device']} {found['driver']}".strip(),
    "load": _load,
    "target_curve": _curve,
    "long_curve": _curve,
    "draft": _draft,
    "host": _host,
    "oracle": _oracle,
    "chosen": _chosen,
}


def stage_line(stage: str, found: Figures) -> str:
    """What a stage found, in one line; empty where it found nothing to tell."""
    line = _LINES.get(stage)
    return line(found) if line else ""


def table(pair: str, found: Figures) -> Iterator[str]:
    """The lines of one pair's table of speed-ups; a pair that was cut short has as many as were measured."""
    runs = found.get("oracle", {}).get("runs", ())
    if not runs:
        return
    plain = f"{runs[0]['plain_tok_s']:.1f} tok/s"
    yield f"{pair}: speed-up over plain decoding ({plain}) with a draft that is right at the rate alpha"
    yield f"{'alpha':>6}{'k':>4}{'tokens/step':>13}{'measured':>10}{'expected':>10}{'predicted':>11}{'free draft':>12}"
    for run in runs:
        yield (
            f"{run['alpha']:6.2f}{run['depth']:4}{run['tokens_per_step']:13.2f}{run['speedup']:10.2f}"
            f"{run['expected']:10.2f}{run['predicted']:11.2f}{run['free_speedup']:12.2f}"
        )
    for best in found["oracle"]["best"]:
        yield f"at alpha {best['alpha']:.2f} the costs say k {best['depth']}: {best['predicted']:.2f}"


def exactly_as_predicted(found: Figures) -> bool:
    """Whether memory and texts were what they had to be; False for a pair that was cut short before it was known."""
    load, oracle = found.get("load", {}), found.get("oracle", {})
    runs = [*oracle.get("runs", ()), *found.get("chosen", {}).get("runs", ())]
    texts = oracle.get("text_as_written", False) and all(run["same_text"] for run in runs)
    on_card = found.get("fit", {}).get("on_device", False)
    return bool(texts and load.get("equal" if on_card else "equal_but_weights", False))
