"""The check before every load: cheap where there is plenty of room, exact where it is close."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specchat.engine.settings import EngineSettings
from specchat.fit.check import Check, request_for
from specchat.fit.exact import FitUnavailable
from specchat.fit.formula import demand_of_shapes
from specchat.fit.memory import Memory, host, nvidia_cards, of_gpus
from specchat.fit.pairs import Pair
from specchat.fit.report import command, sentence
from specchat.fit.shape import Shape, ShapeUnknown, shape_of
from specchat.llama.errors import DoesNotFit
from specchat.llama.gguf import read_header
from specchat.llama.gpus import gpus
from specchat.llama.library import library

_PLENTY: Final = 1.5
"""The formula is off by less than this: what fits with so much to spare needs no process of its own to ask."""


def require_fit(pair: Pair, settings: EngineSettings) -> None:
    """Let what fits pass. Raises DoesNotFit with what to change, ModelUnusable for a file that is no model."""
    if _plenty_of_room(pair, settings):
        return
    with Check() as check:
        try:
            verdict = check.judge(pair, settings, draft_kv_type=settings.draft_kv_type)
        except FitUnavailable:
            # Neither way can tell: llama.cpp itself will, when it allocates.
            return
    if verdict.fits:
        return
    way_out = verdict.way_out
    advice = "Choose a smaller model" if way_out is None else f"Try: {command(verdict, way_out)}"
    raise DoesNotFit(f"{sentence(verdict)} {advice} (or --force, to load it all the same).")


def memory_here() -> Memory:
    """The memory of the device that this process will compute on."""
    if not library().offloads:
        return host()
    cards = nvidia_cards()
    found = gpus()
    return of_gpus(found, cards) if found else host()


def _plenty_of_room(pair: Pair, settings: EngineSettings) -> bool:
    memory = memory_here()
    try:
        target = _shape(pair.target)
        draft = None if pair.draft is None else _shape(pair.draft)
    except ShapeUnknown:
        return False
    request = request_for(
        settings,
        n_ctx_train=target.trained_context,
        on_device=memory.on_device,
        draft_kv_type=settings.draft_kv_type,
    )
    return demand_of_shapes(target, draft, request).total * _PLENTY <= memory.usable


def _shape(source: Path | Shape) -> Shape:
    return source if isinstance(source, Shape) else shape_of(read_header(source))
