"""What can be converted, and into which element types; imports only names, since `--help` lists them."""

from __future__ import annotations

from enum import StrEnum

from specchat.llama import eagle3_file, medusa_file


class CheckpointKind(StrEnum):
    """What a checkpoint can hold, called as the architecture of the file that it becomes."""

    EAGLE3 = eagle3_file.ARCHITECTURE
    MEDUSA = medusa_file.ARCHITECTURE


class WeightType(StrEnum):
    """Element types of a head's matrices; norms and biases stay 32 bits wide."""

    F16 = "f16"
    F32 = "f32"
    Q8_0 = "q8_0"
