"""The picture of a contest: its endings, its panels, and what is said where it can't be drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from specchat.bench import plot as plotting
from specchat.bench.plot import missing_for_plots, plot
from specchat.bench.summary import summarise
from tests.bench.contests import small_contest

pytest.importorskip("matplotlib")


def test_an_svg_shows_every_panel_and_every_contestant(tmp_path: Path) -> None:
    found = small_contest()
    plot(found, summarise(found), tmp_path / "bench.svg")
    root = ElementTree.fromstring((tmp_path / "bench.svg").read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    # matplotlib draws words as outlines and writes them into comments beside.
    words = (tmp_path / "bench.svg").read_text(encoding="utf-8")
    for said in (
        "speed-up over plain decoding, T = 0",
        "acceptance by position, T = 0",
        "cost of a pass over n tokens",
        "predicted against measured speed-up",
        "ceiling 1 / (1 − α)",
        "draft k=3",
        "suffix k=7",
        "peer plain",
    ):
        assert f"<!-- {said} -->" in words


def test_a_png_is_one(tmp_path: Path) -> None:
    found = small_contest()
    plot(found, summarise(found), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_contest_of_plain_decoding_alone_has_a_picture_too(tmp_path: Path) -> None:
    found = small_contest()
    found.labels, found.samples = ["none"], [s for s in found.samples if s.label == "none"]
    plot(found, summarise(found), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").stat().st_size > 10_000


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_for_plots() is None
    monkeypatch.setattr(plotting, "find_spec", lambda _: None)
    assert "pip install" in str(missing_for_plots())


def test_nothing_is_drawn_with_until_a_plot_is_asked_for() -> None:
    code = "import sys, specchat.bench.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
