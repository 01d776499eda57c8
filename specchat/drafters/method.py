"""The drafting methods by name; imports only names, since `--help` lists them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from specchat.catalogue.head_kind import HeadKind


class Method(StrEnum):
    """Drafting methods, as named on the command line."""

    NONE = "none"
    DRAFT = "draft"
    EAGLE = "eagle"
    MTP = "mtp"
    P_EAGLE = "p-eagle"
    DFLASH = "dflash"
    MEDUSA = "medusa"
    EARLY_EXIT = "early-exit"
    LAYER_SKIP = "layer-skip"
    REST = "rest"
    PROMPT_LOOKUP = "prompt-lookup"
    SUFFIX = "suffix"
    LOOKAHEAD = "lookahead"
    AUTO = "auto"


HEAD_OF: Final = {
    Method.EAGLE: HeadKind.EAGLE,
    Method.MTP: HeadKind.MTP,
    Method.P_EAGLE: HeadKind.EAGLE,
    Method.DFLASH: HeadKind.DFLASH,
    Method.MEDUSA: HeadKind.MEDUSA,
}
"""The kind of head that a method drafts with: one that drafts in parallel takes what another EAGLE-3 head takes."""
HEAD_METHODS: Final = tuple(HEAD_OF)
"""Methods that draft with a trained head: from a file of its own, or (`mtp`) from the model's."""
