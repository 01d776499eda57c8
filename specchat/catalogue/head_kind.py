"""The kinds of trained heads; imports nothing, since a process that only measures needs them too."""

from __future__ import annotations

from enum import StrEnum


class HeadKind(StrEnum):
    """Kinds of trained head that a model may come with, as named in the catalogue."""

    MTP = "mtp"
    """Layers that predict further tokens: in the target's file, or in one of their own, which may be an assistant that
    reads the target's cache (Gemma 4)."""
    EAGLE = "eagle"
    MEDUSA = "medusa"
    DFLASH = "dflash"
