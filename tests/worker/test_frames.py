"""What is said arrives as it was said, and nothing else is listened to."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys

import pytest

from specchat.worker.frames import frame, receive
from specchat.worker.messages import Ask, Died, Event, Figures, Finished, Load, Request, Span, Tokens

_SAID: list[Request | Event] = [
    Load("demo", draft_tokens=3),
    Ask(7, "chat", (("system", "\ud800 odd"), ("user", "日本 \x00")), {"temperature": 0.0}, stop_strings=("x",)),
    Tokens(7, (Span("answer", "👍", "bonus"),), Figures(per_position=(0.5,), depths={0: 2, 3: 1}, choices={"a": 1})),
    Finished(7, "stop", Figures()),
    Died("Gone."),
]


@pytest.mark.parametrize("message", _SAID, ids=lambda message: type(message).__name__)
def test_messages_arrive_as_they_were(message: Request | Event) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame(message))
        assert receive(ours) == message
        theirs.close()
        assert receive(ours) is None


def test_a_pickle_of_anything_else_is_refused() -> None:
    body = pickle.dumps(print)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(len(body).to_bytes(4, "big") + body)
        with pytest.raises(pickle.UnpicklingError, match="is no message"):
            receive(ours)


def test_the_chat_s_side_loads_nothing_heavy() -> None:
    program = (
        "import sys, specchat.worker.client, specchat.worker.messages;"
        "print([m for m in ('numpy', 'llama_cpp', 'huggingface_hub', 'jinja2', 'textual') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
