"""Text comes in batches that a screen can keep up with, and never late."""

from __future__ import annotations

import socket
import threading
import time

from specchat.worker.frames import receive
from specchat.worker.messages import Event, Figures, Finished, Prefill, Span, Tokens
from specchat.worker.outbox import Outbox


class _Wire:
    """Reads what an outbox writes, with the times."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.events: list[Event] = []
        self.times: list[float] = []
        self.outbox = Outbox(theirs.sendall)
        self._end = theirs
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (event := receive(self._ours)) is not None:
            self.events.append(event)
            self.times.append(time.monotonic())

    def close(self) -> None:
        self.outbox.close()
        self._end.close()
        self._thread.join(5)
        self._ours.close()


def _span(text: str, origin: str = "accepted") -> list[Span]:
    return [Span("answer", text, origin)]


def test_text_comes_at_most_twenty_times_a_second_and_complete() -> None:
    wire = _Wire()
    for i in range(200):
        wire.outbox.add(1, _span(f"{i} "), Figures(tokens=i + 1))
        time.sleep(0.005)
    wire.outbox.put(Finished(1, "stop", Figures()))
    wire.close()
    batches = [event for event in wire.events if isinstance(event, Tokens)]
    assert "".join(span.text for batch in batches for span in batch.spans) == "".join(f"{i} " for i in range(200))
    assert [batch.figures.tokens for batch in batches][-1] == 200
    seconds = wire.times[-1] - wire.times[0]
    # The last batch does not wait for its turn, and the first had none to wait for.
    assert 5 <= len(batches) <= 20 * seconds + 2
    assert isinstance(wire.events[-1], Finished)


def test_the_last_piece_of_text_comes_while_the_model_pauses() -> None:
    wire = _Wire()
    wire.outbox.add(1, _span("first"), Figures())
    time.sleep(0.01)
    wire.outbox.add(1, _span("second"), Figures())
    time.sleep(0.5)
    assert [event.spans[0].text for event in wire.events if isinstance(event, Tokens)] == ["first", "second"]
    assert wire.times[1] - wire.times[0] < 0.25
    wire.close()


def test_a_reader_that_is_busy_delays_no_one_and_misses_nothing() -> None:
    ours, theirs = socket.socketpair()
    outbox = Outbox(theirs.sendall, interval_s=0.0)
    started = time.monotonic()
    for i in range(300):
        outbox.add(1, _span("x" * 2000 + str(i), "bonus" if i % 2 else "plain"), Figures())
    assert time.monotonic() - started < 2
    outbox.put(Prefill(2, 1, 1))
    text = ""
    while isinstance(event := receive(ours), Tokens):
        text += "".join(span.text for span in event.spans)
    assert event == Prefill(2, 1, 1)
    assert text == "".join("x" * 2000 + str(i) for i in range(300))
    outbox.close()
    ours.close()
    theirs.close()
