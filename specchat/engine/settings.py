"""What the user may choose about an engine and an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from specchat.drafters.method import Method
from specchat.llama.context_params import KVType
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams

MAX_DRAFT_TOKENS = 64
LOOKAHEAD_DRAFT_TOKENS = 7
"""Eight rows a pass, since kernels work in fours."""
LONGEST_CHOSEN_DRAFT = 63
"""Copying pays with long blocks where a pass over 64 tokens costs little more than over one."""
DEFAULT_CONTEXT = 8192


class SettingsError(ValueError):
    """A setting out of its range, or settings that contradict each other; the message says which."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One target, one way to draft for it, and the memory both may use. Raises SettingsError."""

    target: Path
    draft: Path | None = None
    method: Method = Method.NONE
    draft_tokens: int | None = None
    """Tokens drafted a step; None: chosen step by step from measured costs. With `auto`, the most."""
    context: int | None = None
    """Tokens; None: what the model was trained for, at most DEFAULT_CONTEXT."""
    threads: int | None = None
    tree: bool = False
    """Let a trained head draft trees, not chains, where the target can read them."""
    gpu_layers: int = -1
    """Layers on the GPU; −1: all."""
    kv_type: KVType = KVType.F16
    draft_kv_type: KVType = KVType.F16
    past_text: Path | None = None
    """The directory of past conversations that `suffix` drafts from; None: only from the present one."""
    costs: Path | None = None
    """Where measured costs are kept; None: among the user's, from one start to the next."""

    def __post_init__(self) -> None:
        if self.draft_tokens is not None:
            _require("draft-tokens", self.draft_tokens, 0, MAX_DRAFT_TOKENS)
        if self.context is not None:
            _require("ctx", self.context, 16, 1 << 24)
        if self.threads is not None:
            _require("threads", self.threads, 1, 512)
        _require("gpu-layers", self.gpu_layers, -1, 10_000)

    @property
    def depth(self) -> int:
        """How many tokens are drafted a step; 0 decodes plainly."""
        if self.method is Method.NONE:
            return 0
        if self.draft_tokens is not None:
            return self.draft_tokens
        return LOOKAHEAD_DRAFT_TOKENS if self.method is Method.LOOKAHEAD else LONGEST_CHOSEN_DRAFT

    @property
    def chooses_depth(self) -> bool:
        """Whether the depth of each step is chosen from measured costs; the rows of lookahead are a fixed budget."""
        if self.method is Method.AUTO:
            return True
        return self.draft_tokens is None and self.method not in (Method.NONE, Method.LOOKAHEAD)


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How one answer is drawn and when it ends. Raises SettingsError."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    accept: AcceptanceMode = AcceptanceMode.EXACT
    seed: int | None = None
    branch: int = 0
    """Which of several answers to the same prompt: `coupled` draws other noise for each."""
    max_tokens: int | None = None
    speculate: bool = True
    """False: this answer is decoded plainly, whatever the engine drafts with."""

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _require("max-tokens", self.max_tokens, 1, 1 << 30)
        if self.seed is not None:
            _require("seed", self.seed, 0, (1 << 64) - 1)


def _require(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise SettingsError(f"--{name} is {value:,}, but it must lie between {low:,} and {high:,}.")
