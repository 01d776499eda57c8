"""A worker that replays what a test says, and a chat over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from textual.pilot import Pilot

from specchat.chat.store import Store
from specchat.tui.app import ChatApp
from specchat.tui.options import ChatOptions
from specchat.tui.shelf import Download, DownloadProgress, DownloadState, Fit, Offer, ShelfError, ShelfRow
from specchat.worker.messages import (
    Ask,
    Cancel,
    Event,
    Figures,
    Finished,
    Load,
    Loaded,
    Prefill,
    Request,
    Span,
    Tokens,
)

FIGURES = Figures(
    tokens=24,
    steps=8,
    drafted=24,
    tested=20,
    accepted=15,
    alpha=0.75,
    tokens_per_step=3.0,
    tok_s=60.0,
    plain_tok_s=30.0,
    speedup=2.0,
    per_position=(0.9, 0.7, 0.5),
    depths={3: 8},
    methods={"suffix": 8},
    choices={"offer pays": 8},
    depth=3,
    source="suffix",
    draft_s=0.1,
    verify_s=0.3,
    ttft_s=0.05,
    prefill_tok_s=800.0,
    prompt_tokens=40,
    context_used=64,
    used_bytes=500_000_000,
    free_bytes=1_500_000_000,
)


class ScriptedWorker:
    """Loads at once and answers at once, where `loads` and `answers` are true; else the test says what happens."""

    def __init__(self, *, loads: bool = True, answers: bool = True, words: Sequence[str] = ()) -> None:
        self.loads, self.answers = loads, answers
        self.words = list(words)
        self.sent: list[Request] = []
        self.started = self.closed = False
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def start(self) -> None:
        self.started = True

    def send(self, request: Request) -> None:
        self.sent.append(request)
        if isinstance(request, Load) and self.loads:
            self.loaded(request)
        elif isinstance(request, Ask) and self.answers:
            self.answer(request)
        elif isinstance(request, Cancel):
            self.say(Finished(request.turn, "cancelled", replace(FIGURES, tokens=3)))

    def say(self, event: Event) -> None:
        """The worker sends this."""
        self._events.put_nowait(event)

    def loaded(self, load: Load | None = None) -> None:
        """The model that was asked for last is open."""
        load = load or next(r for r in reversed(self.sent) if isinstance(r, Load))
        self.say(
            Loaded(
                model=load.model,
                name=f"{load.model.title()} 135M",
                target=f"{load.model}.gguf",
                draft=load.draft,
                method=load.method or "auto",
                context=load.context or 4096,
                load_s=0.4,
                thinks=False,
                device="CPU",
                used_bytes=500_000_000,
                free_bytes=1_500_000_000,
                own_bytes=400_000_000,
            )
        )

    def answer(self, ask: Ask, text: str | None = None) -> None:
        """The whole answer, in two pieces."""
        text = text or (self.words.pop(0) if self.words else f"Answer {ask.turn}.")
        middle = len(text) // 2
        self.say(Prefill(ask.turn, 40, 40))
        self.write(ask.turn, text[:middle], "accepted")
        self.write(ask.turn, text[middle:], "bonus")
        self.finish(ask.turn)

    def write(self, turn: int, text: str, origin: str = "accepted", figures: Figures = FIGURES) -> None:
        """A piece of an answer."""
        self.say(Tokens(turn, (Span("answer", text, origin),), figures))

    def finish(self, turn: int, reason: str = "stop", figures: Figures = FIGURES) -> None:
        """The end of an answer."""
        self.say(Finished(turn, reason, figures))

    def asks(self) -> list[Ask]:
        """The questions so far."""
        return [request for request in self.sent if isinstance(request, Ask)]

    def load(self) -> Load:
        """The last request for a model."""
        return next(request for request in reversed(self.sent) if isinstance(request, Load))

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()

    async def close(self) -> None:
        self.closed = True


class ScriptedDownload(Download):
    def __init__(self) -> None:
        self.done, self.state, self.error = 25_000_000, DownloadState.RUNNING, ""

    def progress(self) -> DownloadProgress:
        return DownloadProgress(self.state, self.done, 100_000_000, 5_000_000, self.error)

    def pause(self) -> None:
        self.state = DownloadState.PAUSED

    def resume(self) -> None:
        self.state = DownloadState.RUNNING


@dataclass
class ScriptedShelf:
    """Three models: one here, one to fetch, one too large."""

    download: ScriptedDownload | None = None
    freed: list[int] = field(default_factory=list)
    """What was said to come free, by each look at the machine."""
    rests: int = 0

    def rows(self) -> Sequence[ShelfRow]:
        fetched = self.download is not None and self.download.state is DownloadState.DONE
        return (
            ShelfRow("demo", "SmolLM2 135M Instruct", 98_362_432, True, "own layers", "auto"),
            ShelfRow("qwen3-8b", "Qwen3 8B Q4_K_M", 5_030_000_000, fetched, "Qwen3 0.6B", "draft"),
            ShelfRow("huge", "Huge 70B Q8_0", 74_000_000_000, False),
        )

    def fit(self, id: str) -> Fit:
        return {
            "demo": Fit("fits 4k", True, 6144),
            "qwen3-8b": Fit("fits 40k", True, 40_960),
            "huge": Fit("does not fit: 50 GB short", False),
        }.get(id, Fit("not known"))

    def find(self, name: str) -> ShelfRow:
        row = next((row for row in self.rows() if row.id == name), None)
        if row is None and "/" not in name:
            raise ShelfError(f"There is no model {name!r} in the catalogue, and no such file. Did you mean demo?")
        return row or ShelfRow(name, name, None, not name.startswith("hf:"))

    def look_again(self, freed: int) -> None:
        self.freed.append(freed)

    def best(self) -> str | None:
        return "qwen3-8b"

    def rest(self) -> None:
        self.rests += 1

    def offer(self, id: str) -> Offer:
        files = (("Qwen3-8B-Q4_K_M.gguf", 5_000_000_000), ("Qwen3-0.6B-Q8_0.gguf", 30_000_000))
        return Offer(id, "Qwen3 8B Q4_K_M", files, "Apache-2.0", "/models", 90_000_000_000)

    def fetch(self, id: str) -> Download:
        self.download = ScriptedDownload()
        return self.download


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Chat:
    """A running chat under test."""

    app: ChatApp
    worker: ScriptedWorker
    store: Store
    shelf: ScriptedShelf
    clock: Clock
    pilot: Pilot[int]

    async def settle(self) -> None:
        """Let everything that was said arrive."""
        await self.pilot.pause()
        if self.app.is_running:
            # What stands around the text follows it with a delay.
            self.app.stage.draw()
            await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def submit(self, text: str) -> None:
        """Write a prompt and send it."""
        self.app.prompt.focus()
        self.app.prompt.set_text(text)
        await self.press("enter")

    @property
    def waits(self) -> bool:
        """Whether an answer is being written."""
        return self.app.talk.writing is not None

    @property
    def shown(self) -> dict[str, bool]:
        """Whether the parts that come and go are there."""
        return {part: bool(self.app.base.query_one(f"#{part}").display) for part in ("panel", "notice", "welcome")}

    @property
    def attachments(self) -> list[str]:
        """Files that go with the next question."""
        return list(self.app.prompt.attachments)

    @property
    def toasts(self) -> list[str]:
        """What was said in passing."""
        return [notification.message for notification in self.app._notifications]

    def texts(self) -> list[str]:
        """The messages in the transcript."""
        return [record.text for record in self.app.transcript.records]


@asynccontextmanager
async def chat(
    tmp_path: Path,
    worker: ScriptedWorker | None = None,
    options: ChatOptions | None = None,
    *,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[Chat]:
    """A chat over a scripted worker and a store of its own."""
    clock = Clock()
    worker = worker or ScriptedWorker()
    options = replace(
        options or ChatOptions(),
        clock=clock,
        now=lambda: datetime(2026, 11, 30, 12, 0),
        export_directory=tmp_path,
    )
    with Store(tmp_path / "chats.db") as store:
        shelf = ScriptedShelf()
        app = ChatApp(worker, store, shelf, options)
        async with app.run_test(size=size, notifications=True) as pilot:
            running = Chat(app, worker, store, shelf, clock, pilot)
            await running.settle()
            yield running
