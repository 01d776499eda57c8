"""The drafting methods by name; imports nothing, since `--help` lists them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Method(StrEnum):
    """Drafting methods, as named on the command line."""

    NONE = "none"
    DRAFT = "draft"
    EAGLE = "eagle"
    MTP = "mtp"
    P_EAGLE = "p-eagle"
    MEDUSA = "medusa"
    EARLY_EXIT = "early-exit"
    LAYER_SKIP = "layer-skip"
    REST = "rest"
    PROMPT_LOOKUP = "prompt-lookup"
    SUFFIX = "suffix"
    LOOKAHEAD = "lookahead"
    AUTO = "auto"


HEAD_METHODS: Final = (Method.EAGLE, Method.MTP, Method.P_EAGLE, Method.MEDUSA)
"""Methods that draft with a trained head: from a file of its own, or (`mtp`) from the model's."""
