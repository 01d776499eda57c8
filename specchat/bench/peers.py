"""llama.cpp's own C++ server (the wheel `xllamacpp`) and llama-cpp-python's prompt lookup, on the same files.

Prompts, threads and context are the same as ours too.

Each peer lives in a process of its own: it brings another llama.cpp, and what it prints or dies of stays there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from specchat.bench.entrants import CONTEXT, Entrant, Figures
from specchat.chat.message import Message
from specchat.chat.prompt import PromptBuilder
from specchat.chat.session import Session
from specchat.llama.context_params import FlashAttention
from specchat.llama.errors import LlamaError
from specchat.llama.library import library
from specchat.llama.threads import usable_threads

_START_S, _ANSWER_S = 600.0, 1800.0
_NGRAMS = ("ngram_simple", "ngram_mod", "ngram_cache")
_LIBRARY = "library_lookup"
"""llama-cpp-python's own, which is always installed."""
_ALL_NGRAMS = (*_NGRAMS, "ngram_map_k", "ngram_map_k4v")


@dataclass(frozen=True, slots=True)
class PeerSetup:
    """One way to run the peer; `kind` is its own name for how it drafts, in lower case."""

    target: Path
    threads: int
    gpu_layers: int = -1
    kind: str = "none"
    draft: Path | None = None
    depth: int = 0
    probabilistic: bool = False
    flash_attention: FlashAttention = FlashAttention.OFF
    remark: str = ""
    """Tells two ways to decode plainly apart."""

    @property
    def label(self) -> str:
        """Its name in tables."""
        if self.draft is not None:
            return f"peer {'sampled' if self.probabilistic else 'greedy'} n={self.depth}"
        if self.kind == _LIBRARY:
            return "llama-cpp-python"
        if self.kind != "none":
            return f"peer {self.kind.replace('_', '-')}"
        return f"peer plain{self.remark}"


def installed() -> bool:
    """Whether llama.cpp's server is here to compare with."""
    return find_spec("xllamacpp") is not None


def setups(
    target: Path, draft: Path | None, threads: int, gpu_layers: int, offloads: bool, *, full: bool
) -> list[PeerSetup]:
    """The peer as it decodes plainly, with the draft, and with text already seen; at more depths and kinds if `full`.

    On a CPU without flash attention as ours, where the peer's default is reported beside it.
    """

    def setup(**how: Any) -> PeerSetup:
        flash = {"flash_attention": FlashAttention.AUTO if offloads else FlashAttention.OFF}
        return PeerSetup(target, threads, gpu_layers, **{**flash, **how})

    library = setup(kind=_LIBRARY)
    if not installed():
        return [library]
    found = [setup()]
    if not offloads and full:
        found.append(setup(flash_attention=FlashAttention.AUTO, remark=", FA auto"))
    if draft is not None:
        found += [
            setup(kind="draft_simple", draft=draft, depth=depth, probabilistic=probabilistic)
            for probabilistic in (False, True)
            for depth in ((1, 2, 3, 5, 7) if full else (3,))
        ]
    return [*found, *(setup(kind=kind) for kind in (_ALL_NGRAMS if full else _NGRAMS)), library]


def peers(*, full: bool) -> Callable[[Session, Path | None], list[tuple[str, Callable[[], Entrant]]]]:
    """What a contest opens peers with, once it knows the files."""

    def make(plain: Session, draft: Path | None) -> list[tuple[str, Callable[[], Entrant]]]:
        engine = plain.engine
        offloads = library().offloads
        threads = engine.settings.threads or usable_threads()
        found = setups(engine.model.path, draft, threads, engine.settings.gpu_layers, offloads, full=full)
        return [(setup.label, lambda setup=setup: Peer(setup, plain.builder)) for setup in found]  # type: ignore[misc]

    return make


class Peer:
    """A peer that answers. Raises LlamaError where it can't start or has died."""

    def __init__(self, setup: PeerSetup, builder: PromptBuilder) -> None:
        self.setup = setup
        self._builder = builder
        command = [sys.executable, "-m", "specchat.bench.peers"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        written = asdict(setup) | {"target": str(setup.target), "draft": setup.draft and str(setup.draft)}
        self._converse(written, _START_S)

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.setup.label

    def answer(self, messages: Sequence[Message], temperature: float, tokens: int) -> Figures:
        """One answer to the same token ids, without truncation; timed by the peer's own clock."""
        ids = self._builder.build(messages).token_ids
        return Figures(**self._converse({"ids": ids, "temperature": temperature, "tokens": tokens}, _ANSWER_S))

    def _converse(self, request: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
        """The reply to a line; a peer that is silent for `patience_s` seconds is ended."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(patience_s, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (OSError, ValueError):
            # ValueError: it was closed before.
            line = b""
        finally:
            timer.cancel()
        if not line:
            self.close()
            raise LlamaError(f"the process of {self.label} ended by itself (exit code {process.returncode}).")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            self.close()
            raise LlamaError(f"it says: {reply['error']}")
        return reply

    def close(self) -> None:
        """End the process; twice is no harm."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            # Without its input it leaves by itself; one that is stuck in native code does not.
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve() -> None:
    """The peer's process: a line of JSON in, a line out, until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the library prints must not come between the replies.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

        def reply(data: Mapping[str, Any]) -> None:
            replies.write(json.dumps(data) + "\n")
            replies.flush()

        try:
            chosen = json.loads(sys.stdin.readline())
            chosen["target"], draft = Path(chosen["target"]), chosen["draft"]
            complete = _completer(PeerSetup(**chosen | {"draft": draft and Path(draft)}))
            reply({})
            for line in sys.stdin:
                reply(asdict(complete(**json.loads(line))))
        except Exception as error:
            reply({"error": f"{type(error).__name__}: {error}"})
        # Its threads and destructors have nothing left to do that anyone waits for.
        os._exit(0)


def _completer(setup: PeerSetup) -> Callable[..., Figures]:
    """What answers (ids, temperature, tokens)."""
    if setup.kind != _LIBRARY:
        return partial(_complete, _server(setup))
    from specchat.llama.peer import LibraryLookup

    library = LibraryLookup(setup.target, threads=setup.threads, gpu_layers=setup.gpu_layers, context=CONTEXT)
    return lambda **request: Figures(*library.complete(**request))


def _server(setup: PeerSetup) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(setup.target)
    params.n_ctx, params.n_parallel, params.cache_ram_mib = CONTEXT, 1, 0
    params.fit_params, params.verbosity = False, 0
    params.flash_attn_type = xllamacpp.llama_flash_attn_type(int(setup.flash_attention))
    params.n_gpu_layers = setup.gpu_layers
    speculative = params.speculative
    if setup.kind != "none":
        kind = f"COMMON_SPECULATIVE_TYPE_{setup.kind.upper()}"
        speculative.types = [getattr(xllamacpp.common_speculative_type, kind)]
    pools = [params.cpuparams, params.cpuparams_batch]
    if setup.draft is not None:
        draft = speculative.draft
        draft.mparams.path, draft.n_gpu_layers = str(setup.draft), setup.gpu_layers
        draft.n_max, draft.probabilistic = setup.depth, setup.probabilistic
        pools += [draft.cpuparams, draft.cpuparams_batch]
    for pool in pools:
        pool.n_threads = setup.threads
    return xllamacpp.Server(params)


def _complete(server: Any, ids: list[int], temperature: float, tokens: int) -> Figures:
    request = {
        "prompt": ids, "n_predict": tokens, "temperature": temperature, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
        "cache_prompt": False, "samplers": ["temperature"],
    }  # fmt: skip
    started = time.perf_counter()
    reply = server.handle_completions(request)
    whole = time.perf_counter() - started
    reply = json.loads(reply) if isinstance(reply, str) else reply
    if "timings" not in reply:
        raise RuntimeError(str(reply.get("error", reply))[:200])
    timings = reply["timings"]
    drafted, accepted = int(timings.get("draft_n", 0)), int(timings.get("draft_n_accepted", 0))
    # Its clock starts when the first token is there: the first is not among those it timed.
    between, seconds = max(0, int(timings["predicted_n"]) - 1), timings["predicted_ms"] / 1000
    return Figures(
        between, seconds, max(0.0, whole - seconds), steps=between - accepted, drafted=drafted, accepted=accepted
    )


if __name__ == "__main__":
    serve()
