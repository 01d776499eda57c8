"""The figures of an answer: the `--json` object and the statistics line."""

from __future__ import annotations

from typing import Any

from specchat.chat.session import Session
from specchat.chat.turn import Turn
from specchat.engine.stopping import FinishReason
from specchat.speculation.acceptance import AcceptanceMode
from specchat.speculation.metrics import Metrics

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
            "decode_tok_s": _rounded(_rate(turn)),
        },
        "speculative": speculative(answer.metrics, engine.method.value),
        "memory": {
            "used_bytes": memory.used_bytes,
            "free_bytes": memory.free_bytes,
            "device": memory.device,
        },
    }


def speculative(metrics: Metrics, method: str) -> dict[str, Any]:
    """What drafting did. Without a measured plain rate there is no speed-up to speak of: both stay null."""
    drafting = sum(count for depth, count in metrics.depths.items() if depth)
    return {
        "steps": metrics.steps,
        "drafted": metrics.drafted,
        "tested": metrics.tested,
        "accepted": metrics.accepted,
        "alpha": _rounded(metrics.alpha),
        "tokens_per_step": _rounded(metrics.tokens_per_step),
        "per_position": [_rounded(rate) for rate in metrics.per_position],
        "depths": {str(depth): metrics.depths[depth] for depth in sorted(metrics.depths)},
        "methods": {method: drafting} if drafting else {},
        "draft_s": _rounded(metrics.draft_s),
        "verify_s": _rounded(metrics.verify_s),
        "baseline_tok_s": None,
        "speedup": None,
        "speedup_basis": None,
    }


def statistics_line(session: Session, turn: Turn, accept: AcceptanceMode) -> str:
    """One line for people: what was written, how fast, and what drafting did."""
    answer, metrics, engine = turn.answer, turn.answer.metrics, session.engine
    parts = [session.entry.id, f"{len(answer.token_ids)} tok"]
    rate = _rate(turn)
    if rate is not None:
        parts.append(f"{rate:.1f} tok/s")
    if answer.timings.ttft_s is not None:
        parts.append(f"first token {answer.timings.ttft_s:.2f} s")
    if metrics.alpha is not None:
        lossy = " (lossy)" if accept is AcceptanceMode.TYPICAL else ""
        parts.append(f"{engine.method} k={engine.settings.draft_tokens}, {accept}{lossy}")
        parts.append(f"α {metrics.alpha:.2f} ({metrics.accepted}/{metrics.tested})")
        parts.append(f"τ {metrics.tokens_per_step:.2f} tok/step")
    else:
        parts.append("plain decoding")
    used = answer.timings.prompt_tokens + len(answer.token_ids)
    parts.append(f"ctx {used:,}/{engine.target.n_ctx:,}")
    return " · ".join(parts)


def _rate(turn: Turn) -> float | None:
    written, seconds = len(turn.answer.token_ids), turn.answer.decode_s
    return written / seconds if written and seconds > 0 else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
