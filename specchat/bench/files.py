"""The files that benchmarks run on, made by `scripts/make-bench-target` and `scripts/make-depth-target`."""

from __future__ import annotations

from pathlib import Path

import platformdirs

PADDED_WIDTH, PADDED_FFN = 1408, 2048


def bench_directory() -> Path:
    """Where they lie."""
    return Path(platformdirs.user_cache_path("specchat", appauthor=False)) / "bench"


def padded_pair(folder: Path) -> tuple[Path, Path]:
    """The zero-padded target, a cost model, and its 26-layer draft."""
    return folder / f"target-{PADDED_WIDTH}x{PADDED_FFN}-f32.gguf", folder / "draft-26-layers-q4_0.gguf"


def depth_target(folder: Path, kind: str = "f32") -> Path:
    """The depth-padded target, a cost model, with matrices of type `kind`."""
    return folder / f"depth-target-{kind}.gguf"
