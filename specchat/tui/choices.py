"""How answers are drawn: what the user set, each value checked by a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SAMPLING, SamplingParams
from specchat.tui.actions import nearest

_WHOLE: Final = frozenset({"top_k", "repeat_last_n"})
_OTHERS: Final = ("max_tokens", "seed", "accept", "stop")
KEYS: Final = (*SAMPLING, *_OTHERS)
_TAKE_BACK: Final = frozenset({"default", "auto", ""})
_MOST_TOKENS, _LARGEST_SEED = 1 << 30, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class AnswerChoices:
    """What the user chose over the model's and the program's defaults."""

    sampling: Mapping[str, float] = field(default_factory=dict)
    max_tokens: int | None = None
    seed: int | None = None
    accept: str | None = None
    stop: tuple[str, ...] = ()
    thinking: bool | None = None
    """None: as the model wants."""

    def with_value(self, key: str, text: str) -> AnswerChoices:
        """These, with `key` set to what `text` says, or taken back by `default`; raises ValueError with a sentence."""
        key = key.strip().lower().replace("-", "_")
        text = text.strip()
        if key not in KEYS:
            near = nearest(key, dict.fromkeys(KEYS))
            hint = f" Did you mean {near}?" if near else f" There are: {', '.join(KEYS)}."
            raise ValueError(f"There is no parameter {key!r}.{hint}")
        if key in SAMPLING:
            return self._with_sampling(key, text)
        if text.lower() in _TAKE_BACK:
            return replace(self, **{key: () if key == "stop" else None})  # type: ignore[arg-type]
        return replace(self, **{key: _other(key, text)})  # type: ignore[arg-type]

    def _with_sampling(self, key: str, text: str) -> AnswerChoices:
        sampling = {name: value for name, value in self.sampling.items() if name != key}
        if text.lower() not in _TAKE_BACK:
            sampling[key] = _whole(key, text) if key in _WHOLE else _number(key, text)
            SamplingParams(**sampling)  # type: ignore[arg-type]  # raises ValueError with the range
        return replace(self, sampling=sampling)

    def shown(self, key: str) -> str:
        """The value of `key` as the user would write it; empty where the default holds."""
        if key in SAMPLING:
            value = self.sampling.get(key)
            return "" if value is None else f"{value:g}"
        value = getattr(self, key)
        if value is None or value == ():
            return ""
        return " ".join(_escaped(stop) for stop in value) if isinstance(value, tuple) else str(value)


DEFAULTS: Final[Mapping[str, str]] = {
    **{
        f.name: f"{f.default:g}"
        for f in fields(SamplingParams)
        if f.name in SAMPLING and isinstance(f.default, float | int)
    },
    "max_tokens": "no limit",
    "seed": "none",
    "accept": "exact",
    "stop": "none",
}
"""The program's own values; a model's entry in the catalogue may have others."""


def _number(key: str, text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise ValueError(f"{key} is {text!r}, but it must be a number; {key} default takes it back.") from None


def _whole(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{key} is {text!r}, but it must be a whole number; {key} default takes it back.") from None


def _other(key: str, text: str) -> object:
    if key == "accept":
        if text not in tuple(AcceptanceMode):
            raise ValueError(f"accept is {text!r}, but it must be one of: {', '.join(AcceptanceMode)}.")
        return text
    if key == "stop":
        return tuple(_unescaped(word) for word in text.split())
    low, high = (1, _MOST_TOKENS) if key == "max_tokens" else (0, _LARGEST_SEED)
    value = _whole(key, text)
    if not low <= value <= high:
        raise ValueError(f"{key} is {value:,}, but it must lie between {low:,} and {high:,}.")
    return value


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace(" ", "\\s")


def _unescaped(word: str) -> str:
    parts = word.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\t", "\t").replace("\\s", " ") for part in parts)


def switch(text: str, present: bool) -> bool:
    """What `on`, `off` or nothing (the other way round) makes of a switch; raises ValueError with a sentence."""
    word = text.strip().lower()
    if word in ("on", "yes"):
        return True
    if word in ("off", "no"):
        return False
    if not word:
        return not present
    raise ValueError(f"{text.strip()!r} is neither on nor off.")
