"""The figures of an answer: the `--json` object and the statistics line."""

from __future__ import annotations

from typing import Any

from specchat.chat.session import Session
from specchat.chat.turn import Turn
from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.speed import Speed, speed_of
from specchat.engine.stopping import FinishReason
from specchat.speculation.metrics import Metrics
from specchat.speculation.mode import AcceptanceMode

SCHEMA = 1


def report(session: Session, turn: Turn, accept: AcceptanceMode) -> dict[str, Any]:
    """The finished answer as the object of `--json`."""
    answer, engine = turn.answer, session.engine
    timings, memory = answer.timings, session.memory()
    return {
        "schema": SCHEMA,
        "model": session.entry.id,
        "target": engine.model.path.name,
        "draft": engine.draft_name,
        "method": engine.method.value,
        "accept": accept.value,
        "text": turn.text,
        "reasoning": turn.reasoning,
        "token_ids": answer.token_ids,
        "finish_reason": (answer.finish_reason or FinishReason.CANCELLED).value,
        "prompt_tokens": timings.prompt_tokens,
        "completion_tokens": len(answer.token_ids),
        "timings": {
            "load_s": _rounded(engine.load_s),
            "ttft_s": _rounded(timings.ttft_s),
            "prefill_tok_s": _rounded(timings.prefill_tok_s),
            "decode_s": _rounded(answer.decode_s),
            "decode_tok_s": _rounded(speed_of(engine, answer).tok_s),
        },
        "speculative": speculative(answer.metrics, engine.method.value, speed_of(engine, answer)),
        "memory": {
            "used_bytes": memory.used_bytes,
            "free_bytes": memory.free_bytes,
            "device": memory.device,
        },
    }


def speculative(metrics: Metrics, method: str, speed: Speed) -> dict[str, Any]:
    """What drafting did. Without a measured plain rate there is no speed-up to speak of: both stay null."""
    return {
        "steps": metrics.steps,
        "drafted": metrics.drafted,
        "tested": metrics.tested,
        "accepted": metrics.accepted,
        "alpha": _rounded(metrics.alpha),
        "tokens_per_step": _rounded(metrics.tokens_per_step),
        "per_position": [_rounded(rate) for rate in metrics.per_position],
        "depths": {str(depth): metrics.depths[depth] for depth in sorted(metrics.depths)},
        "trees": metrics.trees,
        "methods": {source or method: count for source, count in sorted(metrics.methods.items())},
        "draft_s": _rounded(metrics.draft_s),
        "verify_s": _rounded(metrics.verify_s),
        "baseline_tok_s": _rounded(speed.plain_tok_s),
        "speedup": _rounded(speed.speedup),
        "speedup_basis": None if speed.speedup is None else "measured",
    }


def statistics_line(session: Session, turn: Turn, accept: AcceptanceMode) -> str:
    """One line for people: what was written, how fast, and what drafting did."""
    answer, metrics, engine = turn.answer, turn.answer.metrics, session.engine
    parts = [session.entry.id, f"{len(answer.token_ids)} tok"]
    speed = speed_of(engine, answer)
    if speed.tok_s is not None:
        parts.append(f"{speed.tok_s:.1f} tok/s")
    if speed.speedup is not None and metrics.drafted:
        parts.append(f"{speed.speedup:.2f} × plain ({speed.plain_tok_s:.1f} tok/s, measured)")
    if answer.timings.ttft_s is not None:
        parts.append(f"first token {answer.timings.ttft_s:.2f} s")
    if metrics.alpha is not None:
        lossy = " (lossy)" if accept is AcceptanceMode.TYPICAL else ""
        parts.append(f"{engine.drafts_with} k={_depths(engine, metrics)}, {accept}{lossy}")
        # Of a tree one level is tested at a time, along the path that is walked.
        of_paths = " of walked paths" if metrics.trees else ""
        parts.append(f"α {metrics.alpha:.2f}{of_paths} ({metrics.accepted}/{metrics.tested})")
        parts.append(f"τ {metrics.tokens_per_step:.2f} tok/step")
    else:
        parts.append("plain decoding" if engine.method is Method.NONE else f"{engine.drafts_with}: nothing drafted")
    if engine.choices:
        parts.append(", ".join(f"{why} {count}" for why, count in engine.choices.items()))
    used = answer.timings.prompt_tokens + len(answer.token_ids)
    parts.append(f"ctx {used:,}/{engine.target.n_ctx:,}")
    return " · ".join(parts)


def _depths(engine: Engine, metrics: Metrics) -> str:
    """The depth, or the range of depths that were chosen."""
    if not engine.settings.chooses_depth:
        return str(engine.settings.depth)
    used = [depth for depth in metrics.depths if depth]
    return f"{min(used)}–{max(used)}" if min(used) < max(used) else str(used[0])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
