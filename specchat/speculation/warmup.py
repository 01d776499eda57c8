"""When to start a drafter that must first read the whole prompt: a short answer never pays for that."""

from __future__ import annotations

from collections import deque
from statistics import median

_UNKNOWN = 16
"""Tokens an answer must have before a drafter whose start was never timed reads the prompt."""
_GAIN_UNKNOWN = 1.3
"""The speed-up believed of a drafter that was never tried."""


class StartPolicy:
    """Compares what starting a drafter costs with what it can save in the tokens still to come.

    An answer of unknown length is expected to go on for as long as it has lasted: it then costs at most about twice
    what knowing its length would have (the ski-rental bound). The median of earlier answers may promise more.
    """

    def __init__(self, seconds_per_token: float | None = None) -> None:
        self._per_token: deque[float] = deque(maxlen=9)
        if seconds_per_token is not None:
            self._per_token.append(seconds_per_token)
        self._answers: deque[int] = deque(maxlen=15)

    def record_start(self, tokens: int, seconds: float) -> None:
        """A start that read `tokens` took `seconds`."""
        if tokens > 0:
            self._per_token.append(seconds / tokens)

    def record_answer(self, tokens: int) -> None:
        """An answer has ended after `tokens`."""
        self._answers.append(tokens)

    def start_s(self, tokens: int) -> float | None:
        """Seconds that reading `tokens` will take; None when never timed."""
        return tokens * median(self._per_token) if self._per_token else None

    def remaining(self, emitted: int, limit: int | None = None) -> int:
        """Tokens expected after the `emitted` ones; `limit` is the most that may still come."""
        typical = int(median(self._answers)) if len(self._answers) >= 3 else 0
        expected = max(emitted, typical - emitted)
        return expected if limit is None else min(expected, limit)

    def worth_starting(
        self, prompt: int, emitted: int, *, drafting_tok_s: float, plain_tok_s: float, limit: int | None = None
    ) -> bool:
        """Whether reading `prompt` tokens now is expected to pay back before the answer ends.

        The rates are those expected with the drafter and without, in tokens a second; 0 where never measured.
        """
        cost = self.start_s(prompt)
        if cost is None or plain_tok_s <= 0:
            return emitted >= _UNKNOWN and self.remaining(emitted, limit) >= _UNKNOWN
        if drafting_tok_s <= 0:
            drafting_tok_s = _GAIN_UNKNOWN * plain_tok_s
        saved = 1 / plain_tok_s - 1 / drafting_tok_s
        return saved * self.remaining(emitted, limit) > cost
