"""The chat over an engine that answers at a given rate with a text known beforehand; a part of scripts/bench-chat.

    synthetic_chat.py FOLDER KIND TOKENS AT_RATE

The engine is a process of its own and speaks as the real one does: through its outbox, on a socket, in its frames. The
answer has TOKENS tokens of the text KIND; all but the last AT_RATE come as quickly as the chat takes them.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from specchat.bench.chat_streaming import LIVE, OVER, RENDERED
from specchat.bench.chat_texts import CHARACTERS, TEXTS
from specchat.chat.store import Store, store_path
from specchat.worker.frames import frame, next_message, receive
from specchat.worker.messages import Ask, Close, Event, Figures, Finished, Load, Loaded, Request, Span
from specchat.worker.outbox import Outbox

_RATE: Final = 200
_STEP: Final = 4
"""Tokens that become certain together: three drafted and kept, one of the target's own."""
_QUICK: Final = 400
"""Tokens at once before those at the rate."""
_CATCH_UP_S: Final = 1.0


# The engine


def engine(connection: socket.socket, folder: Path, text: str, at_rate: int) -> None:
    """Serve until told to end, or the other end is gone."""
    outbox = Outbox(connection.sendall)
    while (request := receive(connection)) is not None and not isinstance(request, Close):
        if isinstance(request, Load):
            outbox.put(
                Loaded("synthetic", "Synthetic 1B", "a.gguf", "b.gguf", "draft", 16384, 0.1, False, device="CPU")
            )
        elif isinstance(request, Ask):
            threading.Thread(target=_answer, args=(outbox, request.turn, folder, text, at_rate), daemon=True).start()


def _answer(outbox: Outbox, turn: int, folder: Path, text: str, at_rate: int) -> None:
    tokens = [text[at : at + CHARACTERS] for at in range(0, len(text), CHARACTERS)]
    quick = len(tokens) - at_rate
    for at in range(0, quick, _QUICK):
        _add(outbox, turn, tokens, at, min(at + _QUICK, quick))
        time.sleep(0.05)
    time.sleep(_CATCH_UP_S if quick else 0)
    (folder / LIVE).touch()
    started = time.monotonic()
    for at in range(quick, len(tokens), _STEP):
        time.sleep(max(0.0, started + (at - quick) / _RATE - time.monotonic()))
        _add(outbox, turn, tokens, at, min(at + _STEP, len(tokens)))
    outbox.put(Finished(turn, "stop", _figures(len(tokens))))
    (folder / OVER).touch()


def _add(outbox: Outbox, turn: int, tokens: list[str], first: int, last: int) -> None:
    places = range(first, last)
    spans = [Span("answer", tokens[at], "bonus" if at % _STEP == _STEP - 1 else "accepted") for at in places]
    outbox.add(turn, spans, _figures(last))


def _figures(tokens: int) -> Figures:
    """Figures that are others at every step, so that all that shows them is drawn as often as it ever is."""
    wave = 0.05 * math.sin(tokens / 50)
    steps = -(-tokens // _STEP)
    return Figures(
        tokens=tokens, steps=steps, drafted=5 * steps, tested=4 * steps, accepted=3 * steps, alpha=0.75 + wave,
        tokens_per_step=4 + wave, tok_s=_RATE + 100 * wave, plain_tok_s=80 + 50 * wave, speedup=2.5 + wave,
        per_position=tuple(0.9 - 0.12 * place + wave for place in range(5)), depths={5: steps},
        methods={"draft": steps}, choices={"offer pays": steps}, depth=5, source="draft", draft_s=0.001 * tokens,
        verify_s=0.004 * tokens, ttft_s=0.05, prefill_tok_s=900.0, prompt_tokens=20, context_used=20 + tokens,
        used_bytes=2_000_000_000 + 1000 * tokens, free_bytes=6_000_000_000,
    )  # fmt: skip


# The chat


class SyntheticWorker:
    """What the chat speaks to. `at_end` is called while all is still on the screen."""

    def __init__(self, arguments: list[str], at_end: Callable[[], None]) -> None:
        self._arguments, self._at_end = arguments, at_end
        self._unsent: list[Request] = []
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Start the engine."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, *self._arguments, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        for request in self._unsent:
            self.send(request)

    def send(self, request: Request) -> None:
        """Hand over a request."""
        if self._writer is None:
            self._unsent.append(request)
        else:
            self._writer.write(frame(request))

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._reader is None:
            await asyncio.sleep(0.01)
        while True:
            try:
                yield await next_message(self._reader)
            except (OSError, asyncio.IncompleteReadError):
                return

    async def close(self) -> None:
        """End the engine."""
        self._at_end()
        self._process.kill()
        self._process.wait()


def chat(folder: Path, arguments: list[str]) -> int:
    """Run the chat on this terminal."""
    from specchat.tui.app import ChatApp
    from specchat.tui.options import ChatOptions
    from specchat.tui.shelf import EmptyShelf

    with Store(store_path()) as store:

        def look() -> None:
            (folder / RENDERED).write_text(json.dumps(_renders_alike(app)), encoding="utf-8")

        app = ChatApp(SyntheticWorker(arguments, look), store, EmptyShelf(), ChatOptions())
        return app.run() or 0


def _renders_alike(app: object) -> bool:
    """Whether the rows of the answer on the screen are those of the same answer opened from the store."""
    from specchat.tui.app import ChatApp
    from specchat.tui.threads import records_of
    from specchat.tui.transcript import Answer, AnswerRecord

    assert isinstance(app, ChatApp)
    latest = app.store.latest()
    shown = app.transcript.last_answer
    if latest is None or shown is None:
        return False
    record = records_of(app.store.thread(latest.id), {})[-1]
    if not isinstance(record, AnswerRecord):
        return False
    width = shown.content_size.width
    rows, fresh = shown.rows(), Answer(record).rows(width)
    return len(rows) == len(fresh) and all(
        (ours.fill, ours.joint) == (other.fill, other.joint)
        and ours.content.is_same(other.content)
        and ours.prefix.is_same(other.prefix)
        for ours, other in zip(rows, fresh, strict=True)
    )


def main() -> int:
    """The chat; with one more argument, a descriptor, the engine."""
    name, kind, tokens, at_rate, *descriptor = sys.argv[1:]
    if not descriptor:
        return chat(Path(name), sys.argv[1:])
    engine(socket.socket(fileno=int(descriptor[0])), Path(name), TEXTS[kind](int(tokens)), int(at_rate))
    return 0


if __name__ == "__main__":
    sys.exit(main())
