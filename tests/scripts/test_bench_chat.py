"""`scripts/bench-chat` measures the chat on a terminal; here a short answer and few messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.bench.chat_figures import Figure
from specchat.bench.chat_texts import CHARACTERS, TEXTS

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench-chat"


def bench_chat(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    out = folder / "chat.json"
    command = [sys.executable, str(SCRIPT), "--json", str(out), "--runs", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done, json.loads(out.read_text(encoding="utf-8"))["parts"] if out.exists() else {}


def figures(part: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {figure["name"]: figure for figure in part["figures"]}


def test_keys_processor_and_memory_are_measured_while_a_synthetic_answer_streams(tmp_path: Path) -> None:
    done, record = bench_chat(tmp_path, "fence", "--tokens", "400")
    assert list(record) == ["fence"], done.stderr
    found = figures(record["fence"])
    assert 0 < found["one fence: key to echo, p50"]["median"] <= found["one fence: key to echo, p95"]["median"]
    assert 0 < found["one fence: processor"]["median"] < 200
    assert found["one fence: answers unlike a fresh render"]["met"]
    assert "load average" in done.stdout
    assert done.returncode == (0 if all(figure["met"] for figure in found.values()) else 1)


@pytest.mark.demo
def test_start_and_search_are_measured_with_the_demo(demo: Path, tmp_path: Path) -> None:
    done, record = bench_chat(tmp_path, "start", "stored", "--messages", "300")
    assert list(record) == ["start", "stored"], done.stderr
    found = figures(record["start"])
    assert 0 < found["first paint after exec"]["median"] < found["the demo answers, after exec"]["median"]
    assert all(figure["median"] > 0 for figure in figures(record["stored"]).values())


def test_a_part_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    done, record = bench_chat(tmp_path, "finish")
    assert done.returncode == 2
    assert "'finish'. Choose from start, mixed, fence, stop, switch, stored." in done.stderr
    assert not record


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_are_as_long_as_asked_for_and_always_the_same(kind: str) -> None:
    text = TEXTS[kind](500)
    assert len(text) == 500 * CHARACTERS
    assert text == TEXTS[kind](500)
    assert TEXTS[kind](900).startswith(text)


def test_the_mixed_text_has_every_kind_of_block() -> None:
    text = TEXTS["mixed"](2000)
    assert all(mark in text for mark in ("\n```python\n", "\n|---|", "\n- ", "\n1. ", "\n## "))


def test_a_figure_is_judged_by_its_median() -> None:
    values = (1.0, 2.0, 90.0)
    assert Figure("a", "s", values, 2.0).met
    assert not Figure("a", "s", values, 1.9).met
    assert "MISSED" in Figure("a", "s", values, 1.9).line()
    assert Figure("a", "s", values).met
