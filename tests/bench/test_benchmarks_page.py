"""Records become BENCHMARKS.md: each takes the place of what was written by hand, with where it comes from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.bench.benchmarks_page import PageError, page, shown
from specchat.bench.record import Table, command, provenance, spread_of, write_record
from specchat.bench.summary import as_data, summarise
from tests.bench.contests import small_contest

TEMPLATE = """<!-- template: edit this. -->

# Benchmarks

## Host

<!-- record host*.json -->
Measured 2026-11-30, before records were kept: 2 ms.
<!-- end -->

<!-- section The demo: bench-demo*.json -->
A note.
<!-- end -->

The end.
"""
ROOT = Path(__file__).resolve().parents[2]


def host(value: float) -> dict[str, Any]:
    head = provenance("bench-host", model="toy", quantisation="Q4_0", threads=2, flash_attention="off")
    return {
        **head,
        "tables": [{"title": "ms", "columns": ["what", "ms"], "rows": [["greedy", value]], "note": "Fine."}],
    }


def test_without_a_record_the_text_by_hand_stands_and_sections_without_records_do_not() -> None:
    made = page(TEMPLATE, {})
    assert "before records were kept: 2 ms." in made
    assert "The demo" not in made
    assert "<!--" not in made
    assert made.startswith("# Benchmarks\n")


def test_a_record_takes_its_place_with_command_date_machine_and_versions() -> None:
    record = host(1.5)
    made = page(TEMPLATE, {"host.json": record})
    assert "before records were kept" not in made
    assert "| greedy | 1.50 |" in made
    assert "Fine." in made
    for said in (
        record["command"],
        "UTC",
        record["machine"]["processor"],
        "numpy 2",
        "2 threads",
        "flash attention off",
    ):
        assert str(said) in made
    assert "The end." in made


def test_a_record_that_no_block_names_is_not_lost() -> None:
    made = page(TEMPLATE, {"other.json": host(3.25)})
    assert "## Further records\n\n### other.json" in made
    assert "3.25" in made


def test_a_bench_shows_speed_ups_beside_what_was_predicted_and_what_was_left_out() -> None:
    found = small_contest()
    found.tokens, found.left_out = 41, "round 3"
    data = json.loads(json.dumps(as_data(found, summarise(found))))
    made = page(TEMPLATE, {"bench-demo.json": data})
    assert "## The demo\n\nA note." in made
    assert "Left out for want of time: round 3." in made
    (line,) = [line for line in made.splitlines() if line.startswith("| draft k=3 | 0 |")]
    assert "1.32 [1.25..1.39]" in line
    assert " 1.39 | 1.05 | 4 |" in line
    assert "speed-up by class, T = 0" in made


def test_figures_of_the_chat_are_shown_with_their_goals() -> None:
    figure = {"name": "first paint", "unit": "ms", "median": 120.5, "least": 100.0, "most": 140.0, "goal": 300}
    made = page(TEMPLATE, {"chat.json": {"start": {"machine": {}, "figures": [figure]}}})
    assert "| first paint | 120.5 [100..140] | ms | 300 |" in made


def test_a_block_that_does_not_end_is_refused() -> None:
    with pytest.raises(PageError, match="does not end"):
        page(TEMPLATE.replace("<!-- end -->", "", 2), {})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"), (3, "3"), (151936, "151,936"), (0.123456, "0.12"), (12.345, "12.3"), (1234.5, "1234"),
        ("a|b", "a\\|b"), ({"median": 1.0, "low": 0.5, "high": 2.0}, "1 [0.50..2]"),
    ],
)  # fmt: skip
def test_cells_have_as_many_digits_as_they_deserve(value: Any, said: str) -> None:
    assert shown(value) == said


def test_a_record_names_its_command_without_where_results_go(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ["/x/scripts/bench-host", "--rounds", "3", "--json", "/home/me/o.json"]
    assert command(script) == "scripts/bench-host --rounds 3"
    module = ["/x/specchat/__main__.py", "bench", "demo", "--plot=a.png", "-n", "4"]
    assert command(module) == "specchat bench demo -n 4"
    monkeypatch.setattr(sys, "argv", ["/x/bin/specchat", "audit", "a b"])
    assert provenance("specchat audit")["command"] == "specchat audit 'a b'"


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    table = Table("t", ("a", "b"))
    table.add(1, spread_of([3.0, 1.0, 2.0]))
    write_record(path, provenance("x"), [table])
    assert json.loads(path.read_text())["tables"][0]["rows"] == [[1, {"median": 2.0, "low": 1.0, "high": 3.0}]]
    with pytest.raises(ValueError, match="cells"):
        table.add(1)
    before = path.read_text()
    table.add(1, float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        write_record(path, provenance("x"), [table])
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
    write_record(None, {}, [])


def test_a_script_writes_one(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    script = [sys.executable, str(ROOT / "scripts" / "bench-host"), "--vocab", "500", "--rounds", "3"]
    subprocess.run([*script, "--json", str(path)], check=True, capture_output=True, timeout=60)
    record = json.loads(path.read_text())
    assert record["command"] == "scripts/bench-host --vocab 500 --rounds 3"
    assert "greedy, exact" in page(TEMPLATE, {"host.json": record})
