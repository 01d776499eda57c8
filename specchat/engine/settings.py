"""What the user may choose about an engine and an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from specchat.drafters.base import Method
from specchat.llama.context import KVType
from specchat.speculation.acceptance import AcceptanceMode
from specchat.speculation.params import SamplingParams

DEFAULT_DRAFT_TOKENS = 3
MAX_DRAFT_TOKENS = 64
DEFAULT_CONTEXT = 8192


class SettingsError(ValueError):
    """A setting out of its range, or settings that contradict each other; the message says which."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One target, one way to draft for it, and the memory both may use. Raises SettingsError."""

    target: Path
    draft: Path | None = None
    method: Method = Method.NONE
    draft_tokens: int = DEFAULT_DRAFT_TOKENS
    context: int | None = None
    """Tokens; None: what the model was trained for, at most DEFAULT_CONTEXT."""
    threads: int | None = None
    gpu_layers: int = -1
    """Layers on the GPU; −1: all."""
    kv_type: KVType = KVType.F16

    def __post_init__(self) -> None:
        _require("draft-tokens", self.draft_tokens, 0, MAX_DRAFT_TOKENS)
        if self.context is not None:
            _require("ctx", self.context, 16, 1 << 24)
        if self.threads is not None:
            _require("threads", self.threads, 1, 512)
        _require("gpu-layers", self.gpu_layers, -1, 10_000)


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How one answer is drawn and when it ends. Raises SettingsError."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    accept: AcceptanceMode = AcceptanceMode.EXACT
    seed: int | None = None
    branch: int = 0
    """Which of several answers to the same prompt: `coupled` draws other noise for each."""
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _require("max-tokens", self.max_tokens, 1, 1 << 30)
        if self.seed is not None:
            _require("seed", self.seed, 0, (1 << 64) - 1)


def _require(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise SettingsError(f"--{name} is {value:,}, but it must lie between {low:,} and {high:,}.")
