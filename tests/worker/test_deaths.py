"""The worker may die of anything: the chat hears of it once and goes on. The chat may die: the worker goes with it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from specchat.worker import client
from specchat.worker.death import DIES_QUICKLY, Witness
from specchat.worker.frames import GREETING, frame, receive
from specchat.worker.messages import Died, Finished, Load, Loaded, LoadFailed, Loading, Prefill, Tokens
from tests.worker.listener import DEMO, SMALL, STORY, Listener, listening, long_text, question


def _kill(listener: Listener, number: signal.Signals = signal.SIGKILL) -> None:
    assert listener.worker.pid is not None
    os.kill(listener.worker.pid, number)


async def _reach(listener: Listener, moment: str) -> None:
    worker = listener.worker
    if moment == "load":
        worker.send(SMALL)
        await listener.until(Loading)
    elif moment == "prefill":
        worker.send(question(3, long_text(180)))
        await listener.until(Prefill)
    elif moment == "answer":
        worker.send(question(4, STORY))
        worker.send(question(5, "Queued behind it."))
        await listener.until(Tokens)


def test_a_killed_worker_is_told_of_once_at_any_moment_and_the_next_load_starts_another() -> None:
    async def run() -> None:
        async with listening(None) as listener:
            for moment, turn in (("load", None), ("prefill", 3), ("answer", 4), ("idle", None)):
                await _reach(listener, moment)
                deaths = listener.count(Died)
                _kill(listener)
                died = await listener.until(Died, 5)
                assert "SIGKILL" in died.reason
                assert died.turn == turn
                # Sent before anyone could know that a new child has come up: it waits for it.
                listener.worker.send(SMALL)
                await listener.until(Loaded)
                assert listener.count(Died) == deaths + 1
        assert listener.text(4)
        # The question behind the one that died has an end of its own.
        assert [e.turn for e in listener.events if isinstance(e, Finished)] == [5]

    threads, files = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    asyncio.run(run())
    assert threading.active_count() == threads
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_a_worker_that_hangs_is_ended_by_force_and_a_question_to_no_one_is_answered() -> None:
    async def run() -> None:
        async with listening(None) as listener:
            _kill(listener)
            await listener.until(Died, 5)
            assert (await listener.answer(question(9, "Anyone?"))).reason == "error"
            listener.worker.send(Load("no-such-model"))
            await listener.until(LoadFailed)
            pid = listener.worker.pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            started = time.monotonic()
            await listener.worker.close()
            assert time.monotonic() - started < 2.5
            assert not psutil.pid_exists(pid)
        assert listener.count(Died) == 1

    asyncio.run(run())


def test_leaving_does_not_wait_for_a_process_that_the_system_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(client, "_PATIENCE_S", 0.2)
        monkeypatch.setattr(client, "_LAST_PATIENCE_S", 0.2)
        async with listening(None) as listener:
            child = listener.worker._child
            assert child is not None
            while child._writer is None:
                await asyncio.sleep(0.01)
            # As a card's driver does: it neither runs nor ends, and its end of the connection stays open.
            os.kill(child.process.pid, signal.SIGSTOP)
            with monkeypatch.context() as patch:
                patch.setattr(child.process, "kill", lambda: None)
                # More than the connection takes: what is unsent must not be waited for either.
                listener.worker.send(question(1, "x" * (1 << 22)))
                started = time.monotonic()
                await listener.worker.close()
                assert time.monotonic() - started < 2
            child.process.kill()
            child.process.wait()

    asyncio.run(run())


def test_a_native_abort_is_told_with_the_words_of_the_library() -> None:
    witness = Witness()
    program = "import sys, ctypes; ctypes.CDLL(sys.argv[1]).ggml_abort(b'here.c', 1, b'no room for %d rows', 7)"
    command = [sys.executable, "-X", "faulthandler", "-c", program, _ggml()]
    with witness.log() as log:
        child = subprocess.run(command, stderr=log, check=False, env={**os.environ, **DIES_QUICKLY})
    sentence = witness.sentence(child.returncode)
    assert "crashed in llama.cpp (SIGABRT): here.c:1: no room for 7 rows." in sentence.replace("/", "")
    assert "Open the model again" in sentence
    assert "Aborted" not in sentence


def _ggml() -> str:
    import importlib.util

    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    return str(next((Path(spec.origin).parent / "lib").glob("libggml-base.*")))


@pytest.mark.parametrize(("status", "words"), [(3, "code 3"), (-7, "SIGBUS"), (-15, "SIGTERM"), (-4, "processor")])
def test_each_end_has_its_own_sentence(status: int, words: str) -> None:
    sentence = Witness().sentence(status)
    assert words in sentence
    assert sentence.endswith(".")


_CHAT = """
import asyncio, signal
from specchat.worker.messages import Tokens
from tests.worker.listener import DEMO, STORY, listening, question

async def main():
    async with listening(DEMO) as listener:
        listener.worker.send(question(1, STORY))
        await listener.until(Tokens)
        print(listener.worker.pid, flush=True)
        await asyncio.sleep(60)

# A shell that starts us in the background has us ignore it, and a child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


def test_the_worker_goes_within_a_second_of_a_killed_chat_and_never_writes_to_its_terminal() -> None:
    root = Path(__file__).resolve().parents[2]
    chat = subprocess.Popen(
        [sys.executable, "-c", _CHAT], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert chat.stdout is not None
    assert chat.stderr is not None
    with chat.stdout, chat.stderr:
        pid = int(chat.stdout.readline())
        # What Ctrl+C in a terminal does: it must stop nothing in the worker.
        os.kill(pid, signal.SIGINT)
        assert not _gone_within(pid, 1)
        chat.kill()
        chat.wait()
        assert _gone_within(pid, 1)
        assert (chat.stdout.read(), chat.stderr.read()) == (b"", b"")


def test_a_closed_connection_ends_the_worker_in_the_middle_of_a_pass() -> None:
    # The parent lives on here, so only the connection can tell.
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "specchat.worker.child", str(theirs.fileno())]
        child = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
    with ours:
        assert ours.recv(len(GREETING), socket.MSG_WAITALL) == GREETING
        ours.sendall(frame(DEMO) + frame(question(1, long_text(800))))
        while not isinstance(receive(ours), Loaded):
            pass
        # Now inside a pass over hundreds of tokens.
        time.sleep(0.5)
    started = time.monotonic()
    assert child.wait(5) == 0
    assert time.monotonic() - started < 1


def _lives(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def _gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _lives(pid)
