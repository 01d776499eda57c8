from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def train_head(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "train-head"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_target_that_no_head_can_be_trained_for_is_refused_with_a_sentence(tiny: Path, tmp_path: Path) -> None:
    head = tmp_path / "head.gguf"
    done = train_head(str(tiny), "-o", str(head))
    assert done.returncode == 1
    assert done.stderr.strip() == "train-head: tiny.gguf has 2 layers; a head reads three, so it needs at least 4."
    assert not head.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-model"], "no-such-model"),
        (["--minutes", "0"], "must be more than 0"),
        (["--tokens", "0"], "must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_without_a_traceback(arguments: list[str], said: str) -> None:
    done = train_head(*arguments)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
