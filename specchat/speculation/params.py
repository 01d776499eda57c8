"""What the user may turn on the sampler chain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

# Float32 logits that differ at all are then further apart than exp can show.
_STEEPEST = 1e9
_ABOVE_ZERO = math.nextafter(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampler chain's settings; the defaults are those of llama.cpp's chat.

    Raises ValueError, naming the parameter, its value and the allowed range.
    """

    temperature: float = 0.8
    """Divides the logits that survive truncation; 0 takes the most likely token."""
    top_k: int = 40
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 0.95
    """Keep the shortest list of most likely tokens that holds this probability; 1 keeps all."""
    min_p: float = 0.05
    """Keep tokens at least this likely relative to the most likely one; 0 keeps all."""
    repeat_penalty: float = 1.0
    """Divides positive and multiplies negative logits of recent tokens; 1 is off."""
    repeat_last_n: int = 64
    """How many of the latest tokens all three penalties look at; 0 switches them off."""
    presence_penalty: float = 0.0
    """Taken once from the logit of a token that occurred recently."""
    frequency_penalty: float = 0.0
    """Taken from the logit of a token once for each of its recent occurrences."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of single tokens, before anything else; −inf forbids a token."""

    def __post_init__(self) -> None:
        _require("temperature", self.temperature, "at least 0", low=0)
        _require("top_k", self.top_k, "at least 0 (0 = off)", low=0)
        _require("top_p", self.top_p, "above 0 and at most 1", low=_ABOVE_ZERO, high=1)
        _require("min_p", self.min_p, "between 0 and 1", low=0, high=1)
        _require("repeat_penalty", self.repeat_penalty, "above 0", low=_ABOVE_ZERO)
        _require("repeat_last_n", self.repeat_last_n, "at least 0 (0 = off)", low=0)
        _require("presence_penalty", self.presence_penalty, "between -2 and 2", low=-2, high=2)
        _require("frequency_penalty", self.frequency_penalty, "between -2 and 2", low=-2, high=2)
        for token, bias in self.logit_bias.items():
            if token < 0:
                raise ValueError(f"logit_bias names token {token}, but token ids start at 0.")
            if math.isnan(bias) or bias == math.inf:
                raise ValueError(f"logit_bias for token {token} is {bias}, but it must be a number or -inf.")

    @property
    def greedy(self) -> bool:
        """Whether every distribution is one-hot at the most likely token."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def steepness(self) -> float:
        """What logits are multiplied with: 1 / temperature, and 1 where the most likely token is taken."""
        return 1.0 if self.greedy else min(1 / self.temperature, _STEEPEST)

    @property
    def truncates(self) -> bool:
        """Whether any token may be cut from a distribution."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def penalizes(self) -> bool:
        """Whether the history changes the logits."""
        active = self.repeat_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0
        return active and self.repeat_last_n > 0


def _require(name: str, value: float, allowed: str, *, low: float, high: float = math.inf) -> None:
    if not low <= value <= high or math.isinf(value):  # a NaN fails every comparison
        raise ValueError(f"{name} is {value}, but it must be a number {allowed}.")


SAMPLING = tuple(each.name for each in fields(SamplingParams) if each.name != "logit_bias")
"""The parameters that are one number, by name."""
