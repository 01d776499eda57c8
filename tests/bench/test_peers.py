"""llama.cpp's server beside ours: the same files, and a failure that costs nothing but the peer."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.bench.peers import Peer, PeerSetup, installed, setups
from specchat.chat.message import Message, Role
from specchat.chat.session import ModelRequest, open_session
from specchat.drafters.method import Method
from specchat.llama.context_params import FlashAttention
from specchat.llama.errors import LlamaError
from tests.tiny_model import write_model

# Not imported here: a second llama.cpp in one process ends it.
needs_it = pytest.mark.skipif(not installed(), reason="xllamacpp is not installed")
QUESTION = (Message(Role.USER, "abc"),)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    return write_model(tmp_path_factory.mktemp("peers") / "chat.gguf", template=template)


@needs_it
def test_a_peer_answers_the_same_question_and_leaves_when_asked(model: Path) -> None:
    session = open_session(ModelRequest(str(model), method=Method.NONE, context=256, threads=1, past_text=False))
    peer = Peer(PeerSetup(model, threads=1), session.builder)
    try:
        figures = peer.answer(QUESTION, 0.0, 10)
        assert figures.tokens == figures.steps == 9
        assert figures.seconds > 0
        peer.close()
        assert peer._process.returncode == 0
        with pytest.raises(LlamaError, match="ended by itself"):
            peer.answer(QUESTION, 0.0, 10)
    finally:
        peer.close()
        session.close()


@needs_it
def test_a_peer_that_cannot_start_says_so_in_a_sentence(tmp_path: Path, model: Path) -> None:
    session = open_session(ModelRequest(str(model), method=Method.NONE, context=256, threads=1, past_text=False))
    try:
        with pytest.raises(LlamaError, match=r"(it says: .*|ended by itself)"):
            Peer(PeerSetup(tmp_path / "nothing.gguf", threads=1), session.builder)
    finally:
        session.close()


def test_the_librarys_own_prompt_lookup_answers_too(model: Path) -> None:
    session = open_session(ModelRequest(str(model), method=Method.NONE, context=256, threads=1, past_text=False))
    peer = Peer(PeerSetup(model, threads=1, kind="library_lookup"), session.builder)
    try:
        for _ in range(2):
            figures = peer.answer(QUESTION, 0.0, 10)
            assert figures.tokens == 9
            assert figures.seconds > 0
    finally:
        peer.close()
        session.close()


@needs_it
def test_a_peer_runs_plainly_with_the_draft_and_from_text_and_each_setting_has_a_name_of_its_own() -> None:
    for full, offloads in ((False, False), (True, False), (True, True)):
        found = setups(Path("t.gguf"), Path("d.gguf"), 2, -1, offloads, full=full)
        names = [setup.label for setup in found]
        assert len(set(names)) == len(names)
        assert names[0] == "peer plain"
        assert {
            "peer greedy n=3",
            "peer sampled n=3",
            "peer ngram-simple",
            "peer ngram-cache",
            "llama-cpp-python",
        } <= set(names)
        assert ("peer plain, FA auto" in names) == (full and not offloads)
    assert not any(setup.draft for setup in setups(Path("t.gguf"), None, 2, -1, False, full=True))
    on_cpu, on_card = (setups(Path("t.gguf"), None, 2, -1, offloads, full=False)[0] for offloads in (False, True))
    assert (on_cpu.flash_attention, on_card.flash_attention) == (FlashAttention.OFF, FlashAttention.AUTO)
