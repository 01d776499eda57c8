"""A machine of stubs for the set-up scripts: its own PATH, home and checkout. Nothing is downloaded or built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_TOOLS: Final = (
    *("bash", "env", "readlink", "dirname", "mkdir", "mktemp", "rm", "mv", "cp", "touch"),
    *("cat", "grep", "awk", "sed", "cut", "tail", "sleep", "uname", "flock"),
)

_PYTHON: Final = r"""#!/usr/bin/env bash
# Writes down what pip was asked, and pretends; only the wheel's key is worked out by a real Python.
bin=${0%/*}
case "$1 $2" in
"-m venv")
    rm -rf "$4"; mkdir -p "$4/bin"
    cp "$0" "$4/bin/python"
    echo "#!$4/bin/python" >"$4/bin/pip"
    ;;
"-m pip")
    shift 2
    [[ $1 == --version ]] && exit
    echo "pip $*" >>"$CALLS"
    cat # stdin is not pip's to read
    [[ -r $HOOKS/$1 ]] && source "$HOOKS/$1"
    if [[ $1 == wheel ]]; then
        while [[ $1 != --wheel-dir ]]; do shift; done
        echo "  [1/2] c++ a.cpp"; echo "  [2/2] c++ b.cpp"
        touch "$2/llama_cpp_python-0.3.36-py3-none-any.whl"
    else
        for tool in specchat ruff mypy lint-imports pytest; do cp "$HOOKS/tool" "$bin/$tool"; done
    fi
    ;;
"-c import sys; print"*) echo 3.12 ;;
*ensurepip* | "-c import llama_cpp") ;;
*) exec "$REAL_PYTHON" -IS "$@" ;;
esac
"""

_TOOL: Final = r"""#!/usr/bin/env bash
name=${0##*/}
echo "$name $*" >>"$CALLS"
[[ $name != specchat ]] || { printf '<%s>' "$@"; cat; pwd >"$HOME/called-from"; }
[[ ${FAILING:-} != "$name" ]] || exit "$FAILING_CODE"
"""


class Machine:
    """What the scripts see: `stub` and `remove` change what is on PATH, `hook` what pip does meanwhile."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self.home = directory / "home"
        self.checkout = directory / "a check out"
        self._hooks = directory / "hooks"
        self._calls = directory / "calls"
        for made in (self.bin, self.home, self._hooks):
            made.mkdir()
        for tool in _TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)
        self.stub("python3", _PYTHON)
        self.stub("cc", "#!/usr/bin/env bash\necho cc 12\n")
        self.stub("c++", "#!/usr/bin/env bash\necho c++ 12\n")
        _executable(self._hooks / "tool", _TOOL)
        self.check_out(self.checkout)

    @staticmethod
    def check_out(into: Path) -> None:
        """Copy what the set-up consists of."""
        shutil.copytree(REPOSITORY / "scripts", into / "scripts")
        shutil.copytree(REPOSITORY / ".ci", into / ".ci")
        shutil.copy(REPOSITORY / "pyproject.toml", into)

    @property
    def wheels(self) -> Path:
        return self.home / ".cache" / "specchat" / "wheels"

    def stub(self, name: str, text: str) -> Path:
        """Put a script on PATH."""
        return _executable(self.bin / name, text)

    def remove(self, *names: str) -> None:
        """Take programs from PATH."""
        for name in names:
            (self.bin / name).unlink()

    def hook(self, verb: str, text: str) -> None:
        """What `pip wheel` or `pip install` does first."""
        (self._hooks / verb).write_text(text)

    def calls(self) -> list[str]:
        """What pip and the installed tools were asked since the last question."""
        text = self._calls.read_text() if self._calls.exists() else ""
        self._calls.unlink(missing_ok=True)
        return text.splitlines()

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "CUDA_HOME": str(self.home / "no-cuda"),
            "CALLS": str(self._calls),
            "HOOKS": str(self._hooks),
            "REAL_PYTHON": sys.executable,
            **extra,
        }

    def start(self, script: str | Path, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a script of the checkout in a process group of its own, as a shell would."""
        return subprocess.Popen(
            [str(self.checkout / script), *arguments],
            env=self.environment(extra),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, script: str | Path, *arguments: str, stdin: str = "", **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of the checkout to its end, from another directory."""
        return subprocess.run(
            [str(self.checkout / script), *arguments],
            env=self.environment(extra),
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def plan(self, **extra: str) -> str:
        """What scripts/chat says it would do."""
        result = self.run("scripts/chat", "hello", SPECCHAT_SETUP_DRY_RUN="1", **extra)
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
        assert self.calls() == []
        return result.stderr

    def refusal(self, script: str = "scripts/chat", **extra: str) -> str:
        """The one sentence with which a script refuses."""
        result = self.run(script, **extra)
        assert (result.returncode, result.stdout) == (1, "")
        (line,) = result.stderr.splitlines()
        assert self.calls() == []
        return line


def eventually(happened: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(process: int) -> bool:
    """Whether a process still works."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and ") Z " in status.read_text())


def _executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path
