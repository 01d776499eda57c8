"""The sampler chain as one would write it on a blackboard: a full sort, double precision, no shortcut."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from specchat.speculation.distribution import SamplingParams


class BoundaryError(Exception):
    """The nucleus ends where its mass meets top_p within rounding: either answer is right."""


def adjusted(logits: Sequence[float], history: Sequence[int], params: SamplingParams) -> list[float]:
    values = [float(np.float32(x)) for x in logits]
    for token, bias in params.logit_bias.items():
        if token < len(values):
            values[token] = float(np.float32(values[token]) + np.float32(bias))
    recent = list(history)[len(history) - params.repeat_last_n :] if params.repeat_last_n < len(history) else history
    for token in set(recent):
        if token < len(values):
            x = values[token]
            x = x / params.repeat_penalty if x > 0 else x * params.repeat_penalty
            x -= list(recent).count(token) * params.frequency_penalty
            values[token] = float(np.float32(x - params.presence_penalty))
    return values


def warped(logits: Sequence[float], history: Sequence[int], params: SamplingParams) -> dict[int, float]:
    """Return the tokens that may be drawn and their probabilities."""
    values = adjusted(logits, history, params)
    order = sorted((i for i in range(len(values)) if values[i] > -math.inf), key=lambda i: (-values[i], i))
    peak = values[order[0]]
    if params.temperature == 0:
        return {order[0]: 1.0}
    if params.top_k > 0:
        order = order[: params.top_k]
    if params.top_p < 1:
        order = nucleus(order, values, params.top_p)
    if params.min_p > 0:
        order = [i for i in order if values[i] >= peak + math.log(params.min_p)]
    weights = [math.exp((values[i] - peak) / params.temperature) for i in order]
    total = math.fsum(weights)
    return {i: w / total for i, w in zip(order, weights, strict=True)}


def nucleus(order: list[int], values: list[float], top_p: float) -> list[int]:
    weights = [math.exp(values[i] - values[order[0]]) for i in order]
    total = math.fsum(weights)
    mass = 0.0
    for size, weight in enumerate(weights, start=1):
        mass += weight
        if abs(mass / total - top_p) < 2e-6:
            raise BoundaryError
        if mass / total > top_p:
            return order[:size]
    return order
