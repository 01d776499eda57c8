"""What goes into one speculative step and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from specchat.speculation.distribution import Distribution


class Origin(StrEnum):
    """Where an emitted token came from."""

    ACCEPTED = "accepted"
    """Drafted, and kept by the acceptance rule."""
    CORRECTED = "corrected"
    """Drawn from the residual after a draft token was rejected."""
    BONUS = "bonus"
    """Drawn from the row after the last accepted draft token."""
    PLAIN = "plain"
    """Drawn in a step that had no draft."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens and the distributions they were really drawn from.

    `distributions` is None for one-hot (deterministic) proposals: lookup, suffix, REST. Otherwise it holds
    one distribution a token, and `ids[i]` was drawn from `distributions[i]`; exactness rests on that.
    """

    ids: Sequence[int] = ()
    distributions: Sequence[Distribution] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one target forward pass.

    `tokens` holds the accepted prefix of the draft and then one token of the target's own (corrected, bonus
    or plain), except where a stop rule cut it. `drafted` counts what was proposed, `tested` what the rule
    looked at.
    """

    tokens: tuple[int, ...]
    accepted: int
    tested: int
    drafted: int

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The origin of each token, in order."""
        own = Origin.PLAIN if not self.drafted else Origin.CORRECTED
        if self.drafted and self.accepted == self.drafted:
            own = Origin.BONUS
        kept = min(self.accepted, len(self.tokens))
        return (Origin.ACCEPTED,) * kept + (own,) * (len(self.tokens) - kept)

    def cut(self, keep: int) -> Step:
        """Return the same step with only its first `keep` tokens, as if the rule had looked no further."""
        if keep >= len(self.tokens):
            return self
        accepted = min(self.accepted, keep)
        return Step(self.tokens[:keep], accepted, min(self.tested, keep), self.drafted)
