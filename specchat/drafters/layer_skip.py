"""A draft cut from the target itself: the same model without some of its middle layers.

After Draft & Verify (Zhang et al. 2309.08168, section 3): skipped layers cost agreement, least in the middle. Whole
blocks are dropped here, since llama.cpp has no graph with holes; the cut file keeps embeddings, head and vocabulary.
Which layers: those that `specchat calibrate` found for this very file, else a set chosen by position.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from specchat.drafters.kept import cache_directory, content_digest, write_json
from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.surgery import rewrite

FEWEST_LAYERS = 3
"""A model with fewer has no middle layer to drop."""


def draft_directory() -> Path:
    """Where cut drafts are kept; deleting it costs a second at the next start."""
    return cache_directory() / "drafts"


def cut_draft(target: Path, drop_layers: Sequence[int]) -> Path:
    """The path of `target` without `drop_layers`, cut at the first call and kept under the target's content hash.

    Raises LlamaError when it can't be cut, OSError when the cache directory can't be written.
    """
    layers = "-".join(map(str, sorted(drop_layers)))
    name = f"{content_digest(target)}-without-{layers}.gguf"
    if len(name) > _LONGEST_NAME:
        name = f"{content_digest(target)}-without-{hashlib.sha256(layers.encode()).hexdigest()[:32]}.gguf"
    path = draft_directory() / name
    if not _is_whole(path):
        rewrite(target, path, drop=drop_layers)
    return path


_CUT = re.compile(r"[0-9a-f]{32}-without-(?:[0-9a-f]{32}|(\d+(?:-\d+)*))\.gguf")


def cut_draft_words(file: str) -> str | None:
    """What a file of this name, as `cut_draft` gives it, drafts with; None for another one."""
    cut = _CUT.fullmatch(file)
    if cut is None:
        return None
    return "own layers" if cut[1] is None else f"own layers, without {', '.join(cut[1].split('-'))}"


_LONGEST_NAME = 200
"""File systems end at 255 bytes, and an unfinished file has a longer name than a finished one."""


def _is_whole(path: Path) -> bool:
    try:
        read_header(path)
    except ModelUnusable:
        return False
    return True


@dataclass(frozen=True, slots=True)
class LayerSkipCalibration:
    """Which layers to drop from a target, and what was measured of the draft without them on this machine."""

    layers: tuple[int, ...]
    n_layer: int
    """Layers of the target."""
    alpha: float
    """Share of the target's greedy tokens that the draft says too."""
    cost_ratio: float
    """Time of a draft token over that of a plain target pass."""
    depth: int
    """Draft tokens a step at which the predicted speed is highest."""
    speedup: float
    """Predicted from measured passes, over plain decoding."""
    tokens: int
    """Tokens of the target's own text that it was measured on."""

    @property
    def pays(self) -> bool:
        """Whether drafting with this set is predicted to be faster than plain decoding."""
        return self.speedup > 1


def _calibration_file(target: Path) -> Path:
    return cache_directory() / "calibration" / f"{content_digest(target)}-layer-skip.json"


def keep_calibration(target: Path, calibration: LayerSkipCalibration) -> None:
    """Remember `calibration` for the file `target`, whole or not at all; raises OSError."""
    write_json(_calibration_file(target), asdict(calibration))


def stored_calibration(target: Path) -> LayerSkipCalibration | None:
    """What was kept for the file `target`; None where nothing was, or what is there is damaged."""
    try:
        raw = json.loads(_calibration_file(target).read_text(encoding="utf-8"))
        calibration = LayerSkipCalibration(**{**raw, "layers": tuple(raw["layers"])})
        return calibration if _makes_sense(calibration, _layers_of(target)) else None
    except (OSError, ValueError, TypeError, KeyError, LlamaError, RecursionError):
        return None


def _makes_sense(found: LayerSkipCalibration, n_layer: int) -> bool:
    counts = (*found.layers, found.n_layer, found.depth, found.tokens)
    if any(type(count) is not int for count in counts):
        return False
    figures = (found.alpha, found.cost_ratio, found.speedup)
    if any(type(figure) not in (int, float) or not math.isfinite(figure) for figure in figures):
        return False
    distinct = list(found.layers) == sorted(set(found.layers))
    in_range = 0 < len(found.layers) < n_layer and all(0 <= layer < n_layer for layer in found.layers)
    return found.n_layer == n_layer and distinct and in_range and found.depth >= 1


def stored_layer_set(target: Path) -> tuple[int, ...] | None:
    """The layers that a calibration found best to drop from `target`; None without a usable one."""
    calibration = stored_calibration(target)
    return calibration.layers if calibration is not None else None


def default_layer_set(target: Path) -> tuple[int, ...]:
    """A fourth of the middle layers, spread evenly: for a target that was never calibrated.

    Raises LlamaError for a model without a middle layer, ModelUnusable for a file that is no model.
    """
    n_layer = _layers_of(target)
    if n_layer < FEWEST_LAYERS:
        raise LlamaError(
            f"{target.name} has {n_layer} layers, so there is no middle layer to skip. Use --method none, or another."
        )
    # The first and the last layers carry most: leave an eighth of them at both ends.
    margin = max(1, n_layer // 8)
    middle = range(margin, n_layer - margin)
    count = max(1, len(middle) // 4)
    return tuple(middle[(2 * i + 1) * len(middle) // (2 * count)] for i in range(count))


def _layers_of(target: Path) -> int:
    return read_header(target).number("block_count")
