"""Values of options, known here without importing the rooms they belong to."""

from __future__ import annotations

from enum import StrEnum


class Thinking(StrEnum):
    """Whether a model that can reason first should."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


class KVName(StrEnum):
    """Element type of the KV cache."""

    F16 = "f16"
    Q8_0 = "q8_0"


class CalibratedName(StrEnum):
    """The methods that can be fitted to a model."""

    EARLY_EXIT = "early-exit"
    LAYER_SKIP = "layer-skip"
