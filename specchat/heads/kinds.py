"""What can be converted, and into which element types; imports nothing, since `--help` lists them."""

from __future__ import annotations

from enum import StrEnum


class HeadKind(StrEnum):
    """Kinds of trained heads."""

    EAGLE3 = "eagle3"
    MEDUSA = "medusa"


class WeightType(StrEnum):
    """Element types of a head's matrices; norms and biases stay 32 bits wide."""

    F16 = "f16"
    F32 = "f32"
    Q8_0 = "q8_0"
