"""The child process: `python -m specchat.worker.child DESCRIPTOR`, where DESCRIPTOR is its end of a socket pair.

It lives as long as the other end: a thread waits there, and when it hears that the parent is gone it ends the process
from wherever the main thread is, a forward pass of seconds included. An orphan would hold the whole card.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import queue
import signal
import socket
import sys
import threading
from pathlib import Path

from specchat.worker.frames import GREETING, receive
from specchat.worker.messages import Ask, Cancel, Close, Load, Measure, Request

_PR_SET_PDEATHSIG = 1
_READY_TO_BE_KILLED = "500"


class Inbox:
    """Reads requests while the main thread computes: a cancelled turn is known at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._waiting: set[int] = set()
        self._cancelled: set[int] = set()
        threading.Thread(target=self._run, name="inbox", daemon=True).start()

    def next(self) -> Request:
        """Wait for a request to carry out."""
        return self._requests.get()

    def is_cancelled(self, turn: int) -> bool:
        """Whether the turn is to stop. Asked for every node of a prefill's graph."""
        return turn in self._cancelled

    def done(self, turn: int) -> None:
        """Forget a turn that has ended: a cancel that comes late means nothing, and its number may come again."""
        self._waiting.discard(turn)
        self._cancelled.discard(turn)

    def _run(self) -> None:
        while (request := receive(self._connection)) is not None:
            self._take(request)
        os._exit(0)

    def _take(self, request: Request) -> None:
        if isinstance(request, Cancel):
            self._cancelled |= self._waiting & {request.turn}
            return
        if isinstance(request, Ask):
            self._waiting.add(request.turn)
        elif not isinstance(request, Measure):
            # Another model, or the end: no one waits for the answers before it.
            self._cancelled |= self._waiting
        self._requests.put(request)


def _prepare_process() -> None:
    """Be a good child: deaf to the terminal, first to go when memory runs out, and without a core dump of gigabytes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)
    threading.excepthook = _end_with
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # Sent when the thread that started us ends, also where a fork of the parent keeps its end of the socket open.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            # The kernel shall take this process, which costs an answer, and not the one that holds the conversation.
            Path("/proc/self/oom_score_adj").write_text(_READY_TO_BE_KILLED)


def _end_with(fault: threading.ExceptHookArgs) -> None:
    """Without either of its threads a worker would be deaf or mute: better that the chat hears of its end."""
    threading.__excepthook__(fault)
    os._exit(1)


def _serve(connection: socket.socket, inbox: Inbox) -> None:
    # Imported while the front end still paints: half a second that the first request need not wait for.
    from specchat.worker.outbox import Outbox
    from specchat.worker.service import Service

    outbox = Outbox(lambda data: _write(connection, data))
    service = Service(outbox, inbox.is_cancelled)
    service.warm()
    while not isinstance(request := inbox.next(), Close):
        if isinstance(request, Load):
            service.load(request)
        elif isinstance(request, Ask):
            service.ask(request)
            inbox.done(request.turn)
        elif isinstance(request, Measure):
            service.measure(request)
    service.close()
    outbox.close()


def _write(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:
        os._exit(0)


def main() -> None:
    """Serve until the parent says so, or is gone."""
    _prepare_process()
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    connection.sendall(GREETING)
    _serve(connection, Inbox(connection))
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything of ours is closed; what native libraries do at exit could only go wrong.
    os._exit(0)


if __name__ == "__main__":
    main()
