"""Reading a checkpoint's config.json: every value is checked, since anybody can publish one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from specchat.heads.errors import CheckpointUnusable

_LAYER: Final = "transformer_layer_config"
"""Where the `speculators` library puts what others say at the top level."""


class Settings:
    """The values of one config.json."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name = name
        self.values: dict[str, Any] = dict(config)
        layer = config.get(_LAYER)
        if isinstance(layer, Mapping):
            self.values |= {key: value for key, value in layer.items() if value is not None}

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number above 0. Raises CheckpointUnusable where there is none and no default."""
        value = self.values.get(key)
        if value is None:
            value = default
        if type(value) is not int or not 0 < value < 1 << 31:
            raise self._wrong(key, value)
        return value

    def real(self, key: str, default: float | None = None, *, table: Mapping[str, Any] | None = None) -> float:
        """A number above 0, of `table` or of the top level. Raises CheckpointUnusable as `number`."""
        value = (self.values if table is None else table).get(key)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._wrong(key, value)
        return float(value)

    def flag(self, key: str) -> bool:
        """A truth value, false where there is none. Raises CheckpointUnusable for something else."""
        value = self.values.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self._wrong(key, value)
        return value

    def table(self, *keys: str) -> Mapping[str, Any]:
        """The first of these tables that there is; an empty one where there is none."""
        found = (self.values.get(key) for key in keys)
        return next((value for value in found if isinstance(value, Mapping)), {})

    def _wrong(self, key: str, value: object) -> CheckpointUnusable:
        if value is None:
            return CheckpointUnusable(f"The config.json of {self.name} does not say {key}. Fetch it with the weights.")
        return self.unknown(key, value)

    def unknown(self, key: str, value: object) -> CheckpointUnusable:
        """The refusal of a value that nothing here knows how to convert."""
        return CheckpointUnusable(f"The config.json of {self.name} has {key} {value!r}, which can't be converted.")
