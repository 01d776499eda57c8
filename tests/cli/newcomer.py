"""A newcomer's machine: a home directory, notes, a repository with a change, a hub on this machine, small models."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest

from specchat.bench.audit.verdict import QUICK
from specchat.bench.extent import QUICK as QUICK_BENCH
from specchat.calibration import early_exit
from specchat.calibration.text import QUESTIONS
from specchat.chat.message import Role
from specchat.chat.store import Store, store_path
from specchat.cli import audit as audits
from specchat.cli import bench as benches
from specchat.cli import calibrate as calibrates
from specchat.cli.app import app
from specchat.cli.environment import Environment
from specchat.drafters.method import Method
from specchat.retrieval import shelf
from tests.command_line import TEMPLATE, Household, household
from tests.heads.checkpoints import eagle3, medusa
from tests.tiny_model import write_model

ROOT = Path(__file__).resolve().parents[2]
VERBS = ("calibrate", "doctor", "audit", "bench", "config", "rest", "models", "chats")
SHELL = frozenset("|<>&$`;")
PROGRAM = f"""#!{sys.executable}
# The program, on this checkout; answers are cut short.
import sys
sys.path.insert(0, {str(ROOT)!r})
from specchat.main import run
if len(sys.argv) > 1 and sys.argv[1] not in {VERBS!r} and not sys.argv[1].startswith("--install"):
    sys.argv[1:1] = ["-n", "6"]
run()
"""
CATALOGUE = """
[demo]
name = "The demo"
rank = 1
context = 2048
target = {{ path = "{demo}" }}
draft = {{ path = "{draft}" }}

[qwen3-14b]
name = "Qwen3 14B"
rank = 900
target = {{ repo = "user/tiny", file = "tiny-Q4_K_M.gguf" }}
draft = {{ repo = "user/draft", file = "draft-Q8_0.gguf" }}
"""
CHAT_ID = "3f9c" + "0" * 28


@dataclass
class Newcomer:
    """One who types commands as they are written."""

    folder: Path
    home: Household
    opened: list[str] = field(default_factory=list)
    """The prompts that the chat was opened with."""

    def run(self, line: str) -> tuple[int, str]:
        """Run a command line: in this process, through a shell where it has pipes or redirections."""
        if SHELL & set(line) or "--install" in line:
            return self._in_a_shell(line)
        words = [
            str(Path(word).expanduser()) if word.startswith("~") else word for word in shlex.split(line, comments=True)
        ]
        assert words[0] == "specchat"
        arguments = words[1:]
        if arguments[:1] != [] and arguments[0] not in VERBS:
            arguments = ["-n", "6", *arguments]
        return self._here(arguments)

    def _here(self, arguments: list[str]) -> tuple[int, str]:
        out, err = BytesIO(), BytesIO()
        terminal, helped = not arguments, StringIO()
        environment = Environment(BytesIO(b""), out, err, terminal, terminal, terminal, os.environ, self._open_chat)
        try:
            with contextlib.redirect_stdout(helped):
                code = app(arguments, obj=environment, standalone_mode=False)
        except SystemExit as ended:
            code = ended.code
        return int(code or 0), helped.getvalue() + (out.getvalue() + err.getvalue()).decode()

    def _in_a_shell(self, line: str) -> tuple[int, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # The shell stays until the command has ended, as somebody's own does.
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{line}\nexit $?"], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PATH": path}, cwd=self.folder, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def _open_chat(self, options: Mapping[str, Any], prompt: str) -> int:
        self.opened.append(prompt)
        return 0

    def prepare(self, verb: str = "") -> None:
        """What somebody has who tries the commands in any order: a conversation, a datastore, a downloaded model.

        Of what `verb` makes there is none yet.
        """
        with Store(store_path()) as store:
            if all(chat.id != CHAT_ID for chat in store.chats(100)):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(CHAT_ID))
                    chat = store.new_chat(model="demo", title="Sleep")
                node = store.add(chat.id, None, Role.USER, "List ten tips for better sleep.")
                store.add(chat.id, node.id, Role.ASSISTANT, "Sleep early.", model="demo")
        if verb in ("rest", "rest build"):
            for name in shelf.names():
                shelf.remove(name)
        else:
            assert self.run("specchat rest build notes ~/notes --force")[0] == 0
        assert self.run("specchat models pull qwen3-14b -y")[0] == 0


def _models(home: Household) -> None:
    """Models large enough in context for what the examples ask for."""

    def model(path: Path, layers: int, context: int) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_model(path, layers=layers, template=TEMPLATE, extra={"context_length": context})

    folder = home.folder
    demo, draft = model(folder / "demo.gguf", 6, 2048), model(folder / "draft.gguf", 1, 2048)
    tiny, small = model(folder / "t" / "tiny-Q4_K_M.gguf", 2, 16384), model(folder / "t" / "draft-Q8_0.gguf", 1, 16384)
    home.hub.add("user/tiny", **{"tiny-Q4_K_M__gguf": tiny, "tiny-Q8_0__gguf": tiny})
    home.hub.add("user/draft", **{"draft-Q8_0__gguf": small})
    home.hub.add("user/repo", **{"repo-Q4_K_M__gguf": tiny})
    for name in ("some", "draft"):
        model(folder / "models" / f"{name}.gguf", 2, 2048)
    eagle3().write(folder / "heads" / "eagle3")
    medusa().write(folder / "heads" / "medusa")
    home.catalogue(CATALOGUE.format(demo=demo, draft=draft))


def _cut_short(patch: pytest.MonkeyPatch) -> None:
    """Fewer questions, methods and samples; everything else is as it is."""
    patch.setattr(calibrates, "QUESTIONS", QUESTIONS[:5])
    patch.setattr(early_exit, "documentation", lambda *_: [])
    short = replace(QUICK, prompts=1, tokens=8, samples=12, positions=8)
    for name, value in (("Extent", lambda: short), ("QUICK", short), ("METHODS", (Method.DRAFT, Method.SUFFIX))):
        patch.setattr(audits, name, value)
    patch.setattr(benches, "QUICK", replace(QUICK_BENCH, tokens=8, budget_s=2.0, cycles=1, largest_pass=4))
    patch.setattr(benches, "METHODS", (Method.DRAFT, Method.SUFFIX, Method.AUTO))


@contextmanager
def newcomer(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Newcomer]:
    """All of it; what takes minutes is cut short."""
    with household(folder, patch) as home:
        _models(home)
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        _cut_short(patch)
        (folder / "bin").mkdir()
        program = folder / "bin" / "specchat"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (folder / "notes").mkdir()
        (folder / "notes" / "a.txt").write_text("Dear diary,\ndef main(): pass\ndef main(): pass\n" * 40)
        (folder / "notes.md").write_text("Buy bread.\n")
        with contextlib.suppress(FileNotFoundError):
            for line in ("init -q", "add notes.md"):
                subprocess.run(["git", *line.split()], check=True, cwd=folder, capture_output=True)
            (folder / "notes.md").write_text("Buy bread and milk.\n")
        yield Newcomer(folder, home)
