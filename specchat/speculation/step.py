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

    `parents` is None for a chain, where each token follows the one before it. In a tree `parents[i]` is the index of
    the token that `ids[i]` follows, −1 for the last verified token; parents come before their children. Only one-hot
    proposals form trees. Row 0 of the target's pass follows the last verified token, row i + 1 follows token i.
    """

    ids: Sequence[int] = ()
    distributions: Sequence[Distribution] | None = None
    parents: Sequence[int] | None = None
    match: int = 0
    """Tokens of the match that a copied draft was found by; 0 where there is none."""
    source: str = ""
    """Which of several drafters proposed it; empty where there is but one."""

    def __len__(self) -> int:
        return len(self.ids)

    def prefix(self, row: int) -> Sequence[int]:
        """The draft tokens that stand before `row` of the target's pass, in order."""
        if self.parents is None:
            return self.ids[:row]
        node, upwards = row - 1, []
        while node >= 0:
            upwards.append(self.ids[node])
            node = self.parents[node]
        return upwards[::-1]


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one target forward pass.

    `tokens` holds the accepted prefix of the draft and then one token of the target's own (corrected, bonus
    or plain), except where a stop rule cut it. `drafted` counts what was proposed, `tested` what the rule
    looked at. In a tree one test is one level: whether the target's token was among the children there.
    """

    tokens: tuple[int, ...]
    accepted: int
    tested: int
    drafted: int
    path: tuple[int, ...] | None = None
    """The accepted tokens of a tree by their indices in the draft, from the root down; None for a chain."""

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The origin of each token, in order."""
        own = Origin.PLAIN if not self.drafted else Origin.CORRECTED
        if self.drafted and self.accepted == self.tested:
            own = Origin.BONUS
        kept = min(self.accepted, len(self.tokens))
        return (Origin.ACCEPTED,) * kept + (own,) * (len(self.tokens) - kept)

    def cut(self, keep: int) -> Step:
        """Return the same step with only its first `keep` tokens, as if the rule had looked no further."""
        if keep >= len(self.tokens):
            return self
        accepted = min(self.accepted, keep)
        path = None if self.path is None else self.path[:accepted]
        return Step(self.tokens[:keep], accepted, min(self.tested, keep), self.drafted, path)
