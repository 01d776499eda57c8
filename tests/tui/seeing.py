"""What can be seen of a running chat."""

from __future__ import annotations

from textual.widgets import Static

from tests.tui.scripted import Chat


def status(running: Chat) -> str:
    return str(running.app.query_one("#status").render())


def offered(running: Chat) -> bool:
    return running.shown["notice"]


def alive(running: Chat) -> bool:
    return running.app.is_running


def stored(running: Chat) -> list[tuple[str, str]]:
    current = running.app.talk.chat
    assert current is not None
    return [(node.role.value, node.text) for node in running.store.thread(current.id)]


def on_screen(running: Chat) -> str:
    return "\n".join(strip.text for strip in running.app.screen._compositor.render_strips())


def top(running: Chat) -> str:
    return type(running.app.screen).__name__


def said(running: Chat) -> str:
    return str(running.app.screen.query_one("#said", Static).render())


async def until(running: Chat, words: str) -> None:
    """Wait until the screen shows these words."""
    for _ in range(200):
        if words in on_screen(running):
            return
        await running.pilot.pause(0.02)
    raise AssertionError(f"{words!r} never came:\n{on_screen(running)}")
