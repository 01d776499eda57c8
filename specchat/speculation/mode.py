"""The acceptance rules by the names the user knows; the rules themselves need numpy, their names don't."""

from __future__ import annotations

from enum import StrEnum


class AcceptanceMode(StrEnum):
    """How a draft is judged (`speculation.acceptance`)."""

    EXACT = "exact"
    BLOCK = "block"
    COUPLED = "coupled"
    TYPICAL = "typical"
