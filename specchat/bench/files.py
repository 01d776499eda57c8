"""The files that benchmarks run on, made by `scripts/make-bench-target` and `scripts/make-depth-target`."""

from __future__ import annotations

from pathlib import Path

import platformdirs

PADDED = (1408, 2048)
"""Width and FFN of the zero-padded target."""
LARGE = (2048, 4096)
"""Those of a larger one, beside which a draft costs less."""
DROPPED = {26: (3, 4, 5, 7), 28: (4, 5)}
"""The layers that a draft of so many layers leaves out."""


def bench_directory() -> Path:
    """Where they lie."""
    return Path(platformdirs.user_cache_path("specchat", appauthor=False)) / "bench"


def padded_pair(folder: Path, shape: tuple[int, int] = PADDED, layers: int = 26) -> tuple[Path, Path]:
    """A zero-padded target, a cost model, and a draft of `layers` of the demo's 30 layers."""
    width, ffn = shape
    return folder / f"target-{width}x{ffn}-f32.gguf", folder / f"draft-{layers}-layers-q4_0.gguf"


def depth_target(folder: Path, kind: str = "f32") -> Path:
    """The depth-padded target, a cost model, with matrices of type `kind`."""
    return folder / f"depth-target-{kind}.gguf"
