"""Pictures of the chat, compared with stored ones. Model, answer and figures are made up: nothing was measured.

SPECCHAT_SNAPSHOTS=write stores them anew: look at them before you commit them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.tui.options import ChatOptions
from specchat.tui.theme import DARK, LIGHT
from specchat.worker.messages import Ask, Figures, Load, Loaded, Span
from tests.tui.full_context import FullWorker, fill
from tests.tui.scripted import FIGURES, Chat, ScriptedWorker, chat

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = [(120, 40), (80, 24), (40, 20)]
THEMES = {"dark": DARK.name, "light": LIGHT.name}

QUESTION = "How does speculative decoding stay exact?"
ANSWER = (
    ("A drafter ", "plain"), ("types ahead, the model checks ", "accepted"), ("the ", "corrected"),
    ("whole block in one pass, and a rule decides ", "accepted"), ("token by token", "bonus"), (":\n\n", "accepted"),
    ("- it is **kept** with probability ", "accepted"), ("`min(1, p/q)`", "corrected"), (";\n", "accepted"),
    ("- else its replacement is drawn ", "accepted"), ("from what is left", "corrected"),
    (", `max(p - q, 0)`.\n\n", "accepted"), ("```python\n", "bonus"),
    ("def keeps(p, q, u):\n    return u < min(1.0, p / q)\n```\n\n", "accepted"),
    ("The text is distributed ", "corrected"), ("as the model alone would write it", "accepted"), (".", "bonus"),
)  # fmt: skip
OF_THE_PICTURE = Figures(
    tokens=118,
    steps=34,
    drafted=142,
    tested=112,
    accepted=84,
    alpha=0.75,
    tokens_per_step=3.47,
    tok_s=141.2,
    plain_tok_s=72.6,
    speedup=1.94,
    per_position=(0.88, 0.79, 0.71, 0.66, 0.6),
    depths={4: 20, 5: 12, 0: 2},
    methods={"draft": 28, "suffix": 4},
    choices={"model pays": 28, "offer pays": 4, "asked for": 2},
    depth=4,
    source="draft",
    draft_s=0.21,
    verify_s=0.62,
    ttft_s=0.19,
    prompt_tokens=58,
    context_used=1240,
    used_bytes=10_468_982_784,
    free_bytes=13_958_643_712,
)
"""Made up for the picture, like the answer: no machine was measured."""


class PictureWorker(ScriptedWorker):
    """Opens a pair that looks like a desktop's and answers with the text above."""

    def loaded(self, load: Load | None = None) -> None:
        self.say(
            Loaded(
                model="example",
                name="Example 14B",
                target="example-14b.gguf",
                draft="example-draft.gguf",
                method="auto",
                context=16_384,
                load_s=2.1,
                thinks=True,
                device="GPU",
                used_bytes=OF_THE_PICTURE.used_bytes,
                free_bytes=OF_THE_PICTURE.free_bytes,
            )
        )

    def answer(self, ask: Ask, text: str | None = None) -> None:
        for number, (piece, origin) in enumerate(ANSWER, start=1):
            share = number / len(ANSWER)
            now = replace(OF_THE_PICTURE, tokens=round(118 * share), alpha=0.6 + 0.15 * share, tok_s=110 + 31 * share)
            self.say_span(ask.turn, Span("answer", piece, origin), now)
        self.finish(ask.turn, figures=OF_THE_PICTURE)

    def say_span(self, turn: int, span: Span, figures: Figures) -> None:
        self.write(turn, span.text, span.origin, figures)


async def answered(running: Chat) -> None:
    running.app.prompt.cursor_blink = False
    await running.submit(QUESTION)
    await running.settle()


def compare(name: str, running: Chat) -> None:
    """The screen against the stored picture."""
    picture = re.sub(r"terminal-\d+-", "terminal-", running.app.export_screenshot(title="specchat"))
    stored = SNAPSHOTS / f"{name}.svg"
    if os.environ.get("SPECCHAT_SNAPSHOTS") == "write":
        SNAPSHOTS.mkdir(exist_ok=True)
        stored.write_text(picture, encoding="utf-8")
    if picture != stored.read_text(encoding="utf-8"):
        seen = stored.with_suffix(".seen.svg")
        seen.write_text(picture, encoding="utf-8")
        raise AssertionError(f"The screen is another than in {stored}; it is in {seen}. See this module's docstring.")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_chat_looks_as_it_did(size: tuple[int, int], theme: str, tmp_path: Path) -> None:
    options = ChatOptions(theme=THEMES[theme])
    async with chat(tmp_path, PictureWorker(), options, size=size) as running:
        await answered(running)
        compare(f"chat-{size[0]}x{size[1]}-{theme}", running)


@pytest.mark.parametrize("theme", THEMES)
async def test_provenance_looks_as_it_did(theme: str, tmp_path: Path) -> None:
    options = ChatOptions(theme=THEMES[theme])
    async with chat(tmp_path, PictureWorker(), options, size=(120, 40)) as running:
        await answered(running)
        await running.press("f4")
        compare(f"provenance-120x40-{theme}", running)


async def test_the_models_look_as_they_did(tmp_path: Path) -> None:
    async with chat(tmp_path, PictureWorker(), ChatOptions(), size=(100, 30)) as running:
        await running.press("f2")
        await running.settle()
        compare("models-100x30-dark", running)


async def test_room_in_the_context_looks_as_it_did(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(), ChatOptions(), size=(80, 40)) as running:
        running.app.prompt.cursor_blink = False
        await fill(running)
        compare("room-80x40-dark", running)


def test_the_pictures_use_the_figures_of_the_tests() -> None:
    """A picture that shows a speed-up shows its base."""
    assert OF_THE_PICTURE.speedup == pytest.approx(
        (OF_THE_PICTURE.tok_s or 0) / (OF_THE_PICTURE.plain_tok_s or 1), abs=0.01
    )
    assert FIGURES.plain_tok_s
