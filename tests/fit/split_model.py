"""A model split over several files, as the hub holds large ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from tests import tiny_model

TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


class _SplitWriter(gguf.GGUFWriter):  # type: ignore[misc]
    def __init__(self, path: Path, architecture: str) -> None:
        super().__init__(path, architecture, split_max_tensors=8)


def write_split_model(path: Path) -> list[Path]:
    """The parts of a random model whose whole would be `path`, in order."""
    return split(path, lambda: tiny_model.write_model(path, template=TEMPLATE))


def split(path: Path, write: Callable[[], object]) -> list[Path]:
    """The parts of what `write` would have put into `path`, in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFWriter", _SplitWriter)
        write()
    return sorted(path.parent.glob(f"{path.stem}-*-of-*.gguf"))
