"""The chat's side of the worker, for one asyncio loop. Importing it loads neither numpy nor llama.cpp."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from typing import Self

from specchat.worker.death import DIES_QUICKLY, Witness
from specchat.worker.frames import GREETING, frame, next_message
from specchat.worker.messages import Ask, Close, Died, Event, Figures, Finished, Load, Request

_PATIENCE_S = 2.0
"""How long a worker may take to end by itself."""
_LAST_PATIENCE_S = 3.0
"""How long the system may take to end one by force: a card's driver may hold it."""
_FAREWELL_S = 1.0
"""How long the end of the connection may take once the process is given up."""
_LOOK_EVERY_S = 0.01
_OTHER_VERSION = (
    "The engine that started is of another version: specchat was changed on disk while it ran. Quit and start it again."
)
_NOTHING_OPEN = "No model is open, so nothing was asked. Open one first."


class Worker:
    """A child process that holds the model, and the events it sends.

    `on_event` is called with each event in the thread of the loop; without it, iterate the worker for them. A worker
    that dies is told of once, by `Died`; the next `Load` starts another. All methods belong to one running loop, and
    its thread must live as long as the worker: on Linux the child ends with the thread that started it.
    """

    def __init__(self, on_event: Callable[[Event], None] | None = None) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._on_event = on_event or self._events.put_nowait
        self._child: _Child | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return None if self._child is None else self._child.process.pid

    async def start(self) -> None:
        """Start the child where there is none; it loads llama.cpp while it waits for the first `Load`."""
        self._start()

    def _start(self) -> _Child | None:
        if self._child is None and not self._closed:
            try:
                self._child = _Child(self._take, self._buried)
            except OSError as error:
                reason = f"The engine could not be started: {error.strerror}. Close other programs and try again."
                asyncio.get_running_loop().call_soon(self._take, Died(reason))
        return self._child

    def send(self, request: Request) -> None:
        """Hand over a request, at once and without waiting; `Close` ends the child and `close` waits for it too."""
        child = self._start() if isinstance(request, Load) else self._child
        if child is not None:
            child.send(request)
        elif isinstance(request, Ask):
            refusal = Finished(request.turn, "error", Figures(), _NOTHING_OPEN)
            asyncio.get_running_loop().call_soon(self._take, refusal)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await self._events.get()
        if event is None:
            # For whoever else iterates.
            self._events.put_nowait(None)
            raise StopAsyncIteration
        return event

    async def close(self) -> None:
        """End the child, within two seconds or by force; no event comes any more."""
        if not self._closed:
            self._closed = True
            if self._child is not None:
                await self._child.end()
            self._events.put_nowait(None)

    def _take(self, event: Event) -> None:
        if self._closed:
            return
        try:
            self._on_event(event)
        except Exception as error:
            # A fault in the screen must not cost the events that follow.
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"on_event failed for {type(event).__name__}", "exception": error}
            )

    def _buried(self, unheard: list[Request]) -> None:
        """A child is gone, and has been told of; `unheard` came after it was."""
        self._child = None
        for request in unheard:
            self.send(request)


class _Child:
    """One child process: its connection, its open turns, its end."""

    def __init__(self, take: Callable[[Event], None], buried: Callable[[list[Request]], None]) -> None:
        self._take = take
        self._buried = buried
        self._turns: dict[int, None] = {}
        self._unsent: list[Request] = []
        """What was sent before the child listened."""
        self._unheard: list[Request] = []
        """What was sent after its end: for the next one."""
        self._writer: StreamWriter | None = None
        self._gone = False
        self._dismissed = False
        self._witness = Witness()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = self._spawned(theirs.fileno())
        except OSError:
            ours.close()
            raise
        self._task = asyncio.get_running_loop().create_task(self._serve(ours))

    def _spawned(self, descriptor: int) -> subprocess.Popen[bytes]:
        # -P: a numpy.py in the user's directory is not ours. `-m` keeps the chat's own __main__ out of the child.
        command = [sys.executable, "-P", "-m", "specchat.worker.child", str(descriptor)]
        with self._witness.log() as log:
            return subprocess.Popen(
                command,
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Out of reach of the terminal's signals from its first instruction on.
                start_new_session=True,
                env={**os.environ, **DIES_QUICKLY},
            )

    def send(self, request: Request) -> None:
        """Write the request, or keep it: until the child listens, or, once it is gone, for the next one."""
        if self._gone or self._dismissed:
            self._unheard.append(request)
            return
        if isinstance(request, Close):
            self._dismissed = True
        if isinstance(request, Ask):
            self._turns[request.turn] = None
        if self._writer is None:
            self._unsent.append(request)
        else:
            self._writer.write(frame(request))

    async def _serve(self, connection: socket.socket) -> None:
        writer: StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection)
            if await reader.readexactly(len(GREETING)) != GREETING:
                await self._mourn(_OTHER_VERSION)
                return
            self._listen(writer)
            await self._pass_events_on(reader)
        except (OSError, asyncio.IncompleteReadError):
            await self._mourn(None)
        except Exception as error:
            await self._mourn(f"The engine sent what can't be read ({type(error).__name__}). Open the model again.")
        finally:
            if writer is not None:
                # Not `close`: that would wait until somebody reads what is still unsent.
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    def _listen(self, writer: StreamWriter) -> None:
        self._writer = writer
        for request in self._unsent:
            writer.write(frame(request))
        self._unsent.clear()

    async def _pass_events_on(self, reader: StreamReader) -> None:
        while True:
            event = await next_message(reader)
            if isinstance(event, Finished):
                self._turns.pop(event.turn, None)
            self._take(event)

    async def _mourn(self, reason: str | None) -> None:
        """The connection is over: see what became of the child, and tell; a `reason` of our own ends it first."""
        self._gone = True
        if reason is not None:
            self.process.kill()
        status = await self._ended()
        if not self._dismissed:
            self._tell(reason or self._witness.sentence(status))
        self._buried(self._unheard)

    def _tell(self, reason: str) -> None:
        first, *others = self._turns or (None,)
        for turn in others:
            if turn is not None:
                self._take(Finished(turn, "error", Figures(), "The engine ended before it came to this question."))
        self._take(Died(reason, first))

    async def _ended(self) -> int:
        """Wait for the end of the process, with patience and then by force; its exit status."""
        started = time.monotonic()
        while (status := self.process.poll()) is None:
            waited = time.monotonic() - started
            if waited >= _PATIENCE_S:
                self.process.kill()
            if waited >= _PATIENCE_S + _LAST_PATIENCE_S:
                # It holds nothing of ours but a number: the system ends it as soon as it can.
                return -signal.SIGKILL
            await asyncio.sleep(_LOOK_EVERY_S)
        return status

    async def end(self) -> None:
        """Ask the process to end, and force it to where it does not."""
        self.send(Close())
        await self._ended()
        if self.process.poll() is None and self._writer is not None:
            # The system holds it, and with it the other end: the connection would stay open as long.
            self._writer.transport.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task, _FAREWELL_S)
