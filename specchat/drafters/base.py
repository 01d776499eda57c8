"""What the loop asks of a drafter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from specchat.drafters.method import Method
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


class Drafter(Protocol):
    """Types ahead of the target.

    Its state is the ids it was last told of; whatever it keeps besides (a KV cache, an index) must follow them
    through edits, cuts and cancellations.
    """

    method: Method

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with exactly `ids`, cheaply where they extend what is held; draw with `sampler` from now on."""

    def propose(self, limit: int) -> Draft:
        """Up to `limit` tokens after the ids held, and the distributions they were drawn from."""

    def commit(self, step: Step) -> None:
        """Take the outcome of the last proposal: its accepted prefix and the target's own token."""

    def close(self) -> None:
        """Free what is held."""


@runtime_checkable
class StateReader(Protocol):
    """A drafter that reads the target's hidden states, which only a pass of the target makes."""

    def keeps(self, ids: Sequence[int]) -> int:
        """How many of the first `ids` the target may keep in its cache; what follows it must read (again)."""


class NoDrafter:
    """Plain decoding: proposes nothing."""

    method = Method.NONE

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Nothing to agree with."""

    def propose(self, limit: int) -> Draft:
        """No token."""
        return Draft()

    def commit(self, step: Step) -> None:
        """Nothing to follow."""

    def close(self) -> None:
        """Nothing to free."""
