"""The check before every load: cheap where there is plenty of room, exact where it is close."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specchat.engine.settings import EngineSettings
from specchat.fit.check import Check, as_loaded, memory_of, request_for, shapes_of
from specchat.fit.dimensions import ShapeUnknown
from specchat.fit.exact import FitUnavailable
from specchat.fit.formula import demand_of_shapes
from specchat.fit.head_rows import heads_supported
from specchat.fit.memory import Memory, host, nvidia_cards
from specchat.fit.pairs import Pair
from specchat.fit.report import command, mebibytes, sentence
from specchat.fit.verdict import Verdict
from specchat.llama.errors import DoesNotFit
from specchat.llama.gpus import gpus, gpus_unknown
from specchat.llama.library import library

_PLENTY: Final = 1.5
"""The formula is off by less than this: what fits with so much to spare needs no process of its own to ask."""


def require_fit(pair: Pair, settings: EngineSettings, named: Mapping[str, str] | None = None) -> None:
    """Let what fits pass; `named` are options that the user gave, by name, for the command that is proposed.

    Raises DoesNotFit with what to change, ModelUnusable for a file that is no model.
    """
    try:
        memory = memory_here()
    except FitUnavailable:
        # Nobody can tell what is free: llama.cpp itself will, when it allocates.
        return
    if _plenty_of_room(pair, settings, memory):
        return
    with Check(memory=memory) as check:
        try:
            verdict = check.judge(pair, settings)
        except FitUnavailable:
            # Neither way can tell: llama.cpp itself will, when it allocates.
            return
    if verdict.fits:
        return
    raise DoesNotFit(f"{sentence(verdict)} {advice(verdict, settings, named)} (or --force, to load it all the same).")


def advice(verdict: Verdict, settings: EngineSettings | None = None, named: Mapping[str, str] | None = None) -> str:
    """What to do about a verdict that it does not fit: every change that is enough, and the command of the first.

    Options that `settings` has otherwise than by default stay in the command.
    """
    way_out = verdict.way_out
    if way_out is None:
        return "Nothing makes it fit; choose a smaller model"
    enough = [f"{fix.what} (frees {mebibytes(fix.frees)})" for fix in verdict.fixes if fix.fits]
    asked = {**(named or {}), **_chosen(settings)}
    return f"What would do: {', or '.join(enough)}. Try: {command(verdict, way_out, asked)}"


def _chosen(settings: EngineSettings | None) -> dict[str, str]:
    """The options of `settings` that differ from the defaults and that what it takes depends on."""
    if settings is None:
        return {}
    usual = EngineSettings(settings.target)
    chosen = {}
    for option, kind, default in (
        ("--kv", settings.kv_type, usual.kv_type),
        ("--draft-kv", settings.draft_kv_type, usual.draft_kv_type),
    ):
        if kind is not default:
            chosen[option] = kind.name.lower()
    if settings.gpu_layers != usual.gpu_layers:
        chosen["--gpu-layers"] = str(settings.gpu_layers)
    return chosen


def memory_here() -> Memory:
    """The memory of the device that this process will compute on. Raises FitUnavailable where that can't be told."""
    if not library().offloads:
        return host()
    # In this order: looking for GPUs makes this process's context, where it has none from a load before.
    found = gpus()
    return memory_of(found, nvidia_cards(), unknown=gpus_unknown(), has_context=True)


def _plenty_of_room(pair: Pair, settings: EngineSettings, memory: Memory) -> bool:
    pair, head = as_loaded(pair, settings, heads=heads_supported)
    try:
        target, draft = shapes_of(pair)
    except ShapeUnknown:
        return False
    request = request_for(
        settings,
        n_ctx_train=target.trained_context,
        on_device=memory.on_device,
    )
    return demand_of_shapes(target, draft, request, head).total * _PLENTY <= memory.usable
