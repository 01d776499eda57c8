"""The chat on a real (pseudo-)terminal with the real model: what a user does in the first minutes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.chat.message import Role
from specchat.chat.store import Store
from tests.tui.pseudo_terminal import Terminal, environment

pytestmark = pytest.mark.demo

QUESTION = "Write three sentences about the sea."
DONE = r"tok · [\d.]+ tok/s"


def stored(home: Path) -> Store:
    return Store(home / "data" / "specchat" / "chats.db")


def test_ask_answer_again_walk_and_leave(demo: object, tmp_path: Path) -> None:
    with Terminal([], tmp_path) as terminal:
        terminal.wait_for("Ask something")
        terminal.press(QUESTION + "\r")
        terminal.wait_for("❯ Write three sentences")
        terminal.wait_for(DONE)
        assert all(word in terminal.text for word in ("Drafting", "tok/s", "plain"))
        terminal.press("\x12")  # ctrl+r
        terminal.wait_for("2/2")
        terminal.wait_for(DONE)
        terminal.press("/show info\r")
        terminal.wait_for("SmolLM2")
        terminal.press("\x1b")
        terminal.press("\x11")  # ctrl+q
        assert terminal.exit_code() == 0
        # The terminal is as it was: its modes, its screen, its cursor, no mouse reports.
        assert terminal.modes() == terminal.modes_before
        for ended in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?25h"):
            assert ended in terminal.raw
    with stored(tmp_path) as store:
        chat = store.latest()
        assert chat is not None
        answers = [node for node in store.nodes(chat.id) if node.role is Role.ASSISTANT]
        assert len(answers) == 2
        assert all(node.finish_reason == "stop" and node.statistics for node in answers)


def test_a_killed_worker_costs_the_answer_and_nothing_else(demo: object, tmp_path: Path) -> None:
    with Terminal(["--method", "none"], tmp_path) as terminal:
        terminal.wait_for("Ask something")
        terminal.press("Write a very long story about a lighthouse.\r")
        terminal.wait_for("answering")
        terminal.wait_for(r"tok/s +[\d.]+")
        terminal.read(1.5)
        terminal.worker().send_signal(signal.SIGKILL)
        terminal.wait_for("(?i)killed|ended")
        with stored(tmp_path) as store:
            chat = store.latest()
            assert chat is not None
            partial = store.thread(chat.id)[-1]
            assert partial.role is Role.ASSISTANT
            assert len(partial.text) > 20
        terminal.press("\x1b[20~")  # F9
        terminal.wait_for("memory")
        terminal.press("Say hello.\r")
        terminal.wait_for("❯ Say hello")
        terminal.wait_for(DONE)
        terminal.press("\x11")
        assert terminal.exit_code() == 0


def test_a_chat_goes_on_from_the_command_line(demo: object, tmp_path: Path) -> None:
    with Terminal([], tmp_path, columns=80, rows=24) as terminal:
        terminal.wait_for("Ask something")
        terminal.press("Name a river.\r")
        terminal.wait_for(DONE)
        terminal.press("\x11")
        assert terminal.exit_code() == 0

    def specchat(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "specchat", *arguments],
            env=environment(tmp_path, {}), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert specchat("-c", "-n", "12", "and shorter?").strip()
    assert "Name a river." in specchat("chats", "search", "river")
    assert "and shorter?" in specchat("chats", "show", specchat("chats", "ls").split()[0])
