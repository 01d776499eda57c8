"""Which trained head an engine would draft with, told from the headers or the dimensions of a pair's files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.heads.pairing import ASSISTANT, has_own_head, method_of, whole_header
from specchat.drafters.method import HEAD_OF, Method
from specchat.engine.settings import EngineSettings
from specchat.fit.dimensions import Shape
from specchat.fit.pairs import Pair, Source
from specchat.llama import dflash_file, eagle3_file, medusa_file

_BY_ARCHITECTURE: Final = {
    eagle3_file.ARCHITECTURE: HeadKind.EAGLE,
    medusa_file.ARCHITECTURE: HeadKind.MEDUSA,
    dflash_file.ARCHITECTURE: HeadKind.DFLASH,
    ASSISTANT: HeadKind.MTP,
}


def head_of(pair: Pair, settings: EngineSettings) -> HeadKind | None:
    """The kind of head that an engine with the method of `settings` drafts with; None: a draft model, text, nothing.

    Raises ModelUnusable for a file that is no model.
    """
    if settings.depth == 0:
        return None
    if pair.draft is not None:
        return _kind(pair.draft)
    asked = settings.method in (Method.AUTO, Method.MTP)
    return HeadKind.MTP if asked and _has_own_head(pair.target) else None


def _kind(draft: Source) -> HeadKind | None:
    if not isinstance(draft, Shape):
        return _kind_of_file(draft)
    if draft.nextn is not None and not any(draft.weights.layers[: len(draft.layers)]):
        return HeadKind.MTP
    return _BY_ARCHITECTURE.get(draft.architecture)


def _kind_of_file(path: Path) -> HeadKind | None:
    method = method_of(path)
    return None if method is None else HEAD_OF[method]


def _has_own_head(target: Source) -> bool:
    return target.nextn is not None if isinstance(target, Shape) else has_own_head(whole_header(target))
