"""The training of a head: AdamW on the target's own probabilities, within a given time.

The loss of a position is the cross-entropy to what the target gave its most probable tokens; of a draft's later steps,
which the head reads its own states in (Li et al. 2503.01840, section 3.2), it weighs less. Steps are learned one at
first and several later: the later ones cost as much each and begin from what the first has learned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from specchat.training.forward import HeadShape, Layer
from specchat.training.lessons import Lesson, Lessons

Floats = NDArray[np.float32]
Parameters = dict[str, Any]
Progress = Callable[[float, int, float], None]
"""Hears the part of the time that is over, steps taken, and the mean loss of late."""

STEPS: Final = 3
"""Of a draft, that the later training unrolls."""
_ALONE: Final = 0.65
"""Part of the time in which the first step is learned alone."""
_FADING: Final = 0.8
"""What a step weighs against the one before."""
_RATE, _WARM_UP, _DECAY = 1e-3, 0.03, 0.01
_BETAS: Final = (0.9, 0.95)
_LONGEST_GRADIENT: Final = 1.0
_NOT_DECAYED: Final = ("attn_norm", "attn_norm_2", "ffn_norm", "output_norm", "fused")
_TOLD_EVERY_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Learned:
    """A trained head."""

    weights: dict[str, Floats]
    """By their names in the file, `fc` and `output` among them."""
    steps: int
    rows: int
    """Positions that were learned from, each text as often as it was read."""
    loss: float
    """Mean of the last steps, of the first token of a draft."""


class Learner:
    """A head in training. `weights` are `first_weights`, `output` [draft tokens, width] is read and never changed."""

    def __init__(self, shape: HeadShape, weights: dict[str, Floats], output: Floats, lessons: Lessons) -> None:
        self._shape = shape
        self._lessons = lessons
        self._output = jnp.asarray(output)
        # In units of what each number usually is: the largest states are a thousand times the smallest.
        self._scale = lessons.feature_scale()
        self._unit = self._scale[-shape.width :]
        fused = np.zeros((shape.width, len(self._scale)), np.float32)
        fused[:, -shape.width :] = np.eye(shape.width, dtype=np.float32)
        self._parameters: Parameters = {name: jnp.asarray(values) for name, values in weights.items()}
        self._parameters["fused"] = jnp.asarray(fused)
        self._moments = tuple({k: jnp.zeros_like(v) for k, v in self._parameters.items()} for _ in range(2))
        self._steps = self._rows = 0
        self._compiled: dict[int, Any] = {}

    def run(
        self,
        seconds: float,
        progress: Progress = lambda _part, _steps, _loss: None,
        *,
        most_steps: int | None = None,
    ) -> Learned:
        """Train for that long, compilation included, or for so many steps; at least one step of each kind."""
        started = told = time.perf_counter()
        recent: list[float] = []
        part, deep = 0.0, 0
        while part < 1 or not deep:
            unrolled = STEPS if part >= _ALONE else 1
            deep += unrolled == STEPS
            lesson = self._lessons.draw()
            recent = [*recent[-49:], self._step(lesson, unrolled, _rate(part))]
            now = time.perf_counter()
            part = (now - started) / seconds if most_steps is None else self._steps / most_steps
            if now - told >= _TOLD_EVERY_S:
                told = now
                progress(min(part, 1.0), self._steps, float(np.mean(recent)))
        return Learned(self.weights(), self._steps, self._rows, float(np.mean(recent)))

    def weights(self) -> dict[str, Floats]:
        """The head as it stands, for `head_file`."""
        found = {name: np.asarray(value, dtype=np.float32) for name, value in self._parameters.items()}
        found["fc"] = self._unit[:, None] * found.pop("fused") / self._scale
        found["output"] = np.asarray(self._output)
        return found

    def _step(self, lesson: Lesson, unrolled: int, rate: float) -> float:
        if unrolled not in self._compiled:
            gradient = jax.value_and_grad(lambda p, *data: self._loss(p, unrolled, *data), has_aux=True)
            self._compiled[unrolled] = jax.jit(partial(_updated, gradient), donate_argnums=(0, 1))
        self._steps += 1
        self._rows += int((lesson.chances[..., 0] > 0).sum())
        self._parameters, self._moments, first = self._compiled[unrolled](
            self._parameters, self._moments, self._steps, rate,
            self._output, lesson.features, lesson.embedded, lesson.rows, lesson.chances,
        )  # fmt: skip
        return float(first)

    def _loss(
        self, p: Parameters, unrolled: int, output: Any, features: Any, embedded: Any, rows: Any, chances: Any
    ) -> Any:
        """The weighed losses of the steps, and the first alone."""
        positions = self._lessons.positions
        layer = Layer(jnp, self._shape, p, positions)
        states = (features.astype(jnp.float32) / self._scale) @ p["fused"].T * self._unit
        losses = []
        for step in range(unrolled):
            place = slice(step, step + positions)
            states = layer.read(embedded[:, place], states)
            logits = layer.logits(states, output)
            said = jnp.take_along_axis(logits, rows[:, place], axis=-1)
            missed = (jax.nn.logsumexp(logits, axis=-1, keepdims=True) - said) * chances[:, place]
            losses.append(missed.sum() / jnp.maximum((chances[:, place, :1] > 0).sum(), 1))
        return sum(loss * _FADING**i for i, loss in enumerate(losses)), losses[0]


def _updated(
    gradient: Any, p: Parameters, moments: tuple[Parameters, Parameters], step: Any, rate: Any, *data: Any
) -> tuple[Parameters, tuple[Parameters, Parameters], Any]:
    """One step of AdamW (Loshchilov and Hutter 1711.05101, algorithm 2) on a gradient of bounded length."""
    (_, first), slopes = gradient(p, *data)
    length = jnp.sqrt(sum(jnp.vdot(g, g) for g in slopes.values()))
    bound = jnp.minimum(1.0, _LONGEST_GRADIENT / (length + 1e-9))
    means, squares = moments
    new: tuple[Parameters, Parameters, Parameters] = ({}, {}, {})
    for name, g in slopes.items():
        g = g * bound
        mean = new[1][name] = _BETAS[0] * means[name] + (1 - _BETAS[0]) * g
        square = new[2][name] = _BETAS[1] * squares[name] + (1 - _BETAS[1]) * g * g
        change = (mean / (1 - _BETAS[0] ** step)) / (jnp.sqrt(square / (1 - _BETAS[1] ** step)) + 1e-8)
        decay = 0.0 if name in _NOT_DECAYED else _DECAY
        new[0][name] = p[name] - rate * (change + decay * p[name])
    return new[0], (new[1], new[2]), first


def _rate(part: float) -> float:
    """The learning rate after `part` of the time: a short rise, then half a cosine down to a twentieth."""
    rise = min(1.0, (part + 0.002) / _WARM_UP)
    return _RATE * rise * (0.05 + 0.95 * 0.5 * (1 + float(np.cos(np.pi * min(part, 1.0)))))
