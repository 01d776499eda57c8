"""What finding out may cost: a budget for trials, and waiting longer after each that failed."""

from __future__ import annotations

_ALLOWANCE = 6
"""Plain steps' worth that may be lost to trials before any time has passed: without it nothing is ever tried."""
_SHARE = 0.01
"""Of all time, what may be lost to trials."""


class ProbeBudget:
    """The time that trials have cost against doing what was known to be best, and what they may cost."""

    def __init__(self, share: float = _SHARE, allowance: float = _ALLOWANCE) -> None:
        self._share = share
        self._allowance = allowance
        self._elapsed_s = 0.0
        self._lost_s = 0.0

    def elapse(self, seconds: float) -> None:
        """Let the time of a step pass, whatever it did."""
        self._elapsed_s += seconds

    def lose(self, seconds: float) -> None:
        """Book what a trial step lost; a gain (negative) makes up for earlier losses, not for later ones."""
        self._lost_s = max(0.0, self._lost_s + seconds)

    def allows(self, loss_s: float, plain_s: float) -> bool:
        """Whether another `loss_s` may be risked, where a plain step takes `plain_s`."""
        return self._lost_s + loss_s <= self._allowance * plain_s + self._share * self._elapsed_s


class BackOff:
    """Steps to wait before the next trial: doubled by each that changed nothing, up to a bound."""

    __slots__ = ("_first", "_longest", "_wait", "due")

    def __init__(self, first: int, longest: int) -> None:
        self._first = self._wait = first
        self._longest = longest
        self.due = 0

    def failed(self, now: int, enough: int) -> None:
        """Wait from step `now` on, next time twice as long, but no longer than `enough` and the bound."""
        self._wait = max(self._first, min(self._wait, enough))
        self.due = now + self._wait
        self._wait = min(2 * self._wait, self._longest)

    def give_up(self, now: int) -> None:
        """Wait from step `now` on, for as long as the bound says."""
        self.due = now + self._longest

    def reset(self, now: int) -> None:
        """Start again with the shortest wait, from step `now` on."""
        self._wait = self._first
        self.due = now + self._first
