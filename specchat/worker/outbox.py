"""What the worker says, in order, with text in batches: a screen can't use more than 20 a second."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from specchat.worker.frames import frame
from specchat.worker.messages import Event, Figures, Span, Tokens
from specchat.worker.spans import joined

INTERVAL_S = 0.05


class Outbox:
    """Writes events from a thread of its own, so that neither a pause of the model nor a busy reader delays the other.

    Text goes out at once where none went out within the interval, else when the interval is over; any other event
    takes what is held along before it.
    """

    def __init__(self, write: Callable[[bytes], None], *, interval_s: float = INTERVAL_S) -> None:
        self._write = write
        self._interval = interval_s
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._held: Tokens | None = None
        self._next_at = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Say `event`, now."""
        with self._changed:
            self._release()
            self._events.append(event)
            self._changed.notify()

    def add(self, turn: int, spans: Sequence[Span], figures: Figures) -> None:
        """Say what a step of the answer `turn` added, soon."""
        with self._changed:
            held = self._held.spans if self._held is not None else ()
            self._held = Tokens(turn, tuple(joined((*held, *spans))), figures)
            self._changed.notify()

    def close(self) -> None:
        """Say what is left, and end."""
        with self._changed:
            self._release()
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _release(self) -> None:
        if self._held is not None:
            self._events.append(self._held)
            self._held = None
            self._next_at = time.monotonic() + self._interval

    def _run(self) -> None:
        while events := self._take():
            for event in events:
                self._write(frame(event))

    def _take(self) -> list[Event]:
        """Wait for events that are due; none once closed."""
        with self._changed:
            while not self._events and not self._closed:
                wait = None if self._held is None else self._next_at - time.monotonic()
                if wait is not None and wait <= 0:
                    self._release()
                else:
                    self._changed.wait(wait)
            events, self._events = list(self._events), deque()
            return events
