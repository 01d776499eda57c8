"""The report says the same to programs and to people, on any terminal."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.models_fit import fit_model
from specchat.fit.memory import planned
from specchat.fit.report import as_data, command, mebibytes, renderable, sentence
from specchat.fit.request import FitRequest
from specchat.fit.verdict import Plan, Verdict, judge
from tests.fit.planned_models import MIB, QWEN3_14B, QWEN3_32B, Size, candidate

CARD = planned(24 << 30)
PLAN = Plan(FitRequest(context=16_384, on_device=True, flash_attention=True))
FITS = judge(QWEN3_14B, PLAN, CARD)
TOO_LARGE = judge(QWEN3_32B, PLAN, CARD, [QWEN3_14B])
ESCAPE = "\x1b"


def shown(verdict: Verdict, width: int, *, colour: bool = False) -> str:
    page = io.StringIO()
    system: Any = "standard" if colour else None
    Console(file=page, width=width, force_terminal=colour, color_system=system).print(renderable(verdict, width))
    return page.getvalue()


def test_the_parts_add_up_to_the_total_for_programs() -> None:
    data = json.loads(json.dumps(as_data(TOO_LARGE)))
    assert data["total_bytes"] == sum(data["target"].values()) + sum(data["draft"].values())
    assert data["missing_bytes"] == (
        data["total_bytes"] + data["overhead_bytes"] + data["margin_bytes"] - data["free_bytes"]
    )
    assert data["fits"] is False
    assert data["exact"] is False
    assert data["context"] == 16_384
    assert data["device"] == "planned card, 24 GiB"
    assert set(data["target"]) == {"weights", "cache", "compute", "rows", "rollback"}
    assert data["head"] is None


def test_every_fix_is_there_for_programs() -> None:
    data = as_data(TOO_LARGE)
    assert len(data["fixes"]) == len(TOO_LARGE.fixes) > 4
    for fix in data["fixes"]:
        assert fix["frees_bytes"] == data["total_bytes"] - fix["total_bytes"]
    assert data["command"] == f"specchat -m qwen3-32b --ctx {TOO_LARGE.largest_context}"


def test_a_model_without_a_draft_has_none_in_the_data() -> None:
    assert as_data(judge(candidate("alone", Size(100, 10, 10)), PLAN, CARD))["draft"] is None


def test_what_fits_has_no_fixes_and_no_command() -> None:
    data = as_data(FITS)
    assert (data["fits"], data["fixes"], data["command"], data["missing_bytes"]) == (True, [], None, 0)


def test_the_command_keeps_what_the_user_had_chosen() -> None:
    fix = next(fix for fix in TOO_LARGE.fixes if fix.options == ("--kv", "q8_0"))
    asked = {"-m": "my models/32b.gguf", "--draft": "small", "--gpu-layers": "40"}
    assert shlex.split(command(TOO_LARGE, fix, asked)) == [
        "specchat", "-m", "my models/32b.gguf", "--draft", "small", "--gpu-layers", "40", "--kv", "q8_0",
        "--ctx", "16384",
    ]  # fmt: skip


def test_another_model_comes_with_its_own_draft() -> None:
    fix = next(fix for fix in TOO_LARGE.fixes if fix.options[0] == "-m")
    assert command(TOO_LARGE, fix, {"-m": "x.gguf", "--draft": "small"}) == "specchat -m qwen3-14b --ctx 16384"


def test_without_a_draft_nothing_is_said_about_its_cache() -> None:
    fix = next(fix for fix in TOO_LARGE.fixes if fix.options == ("--draft", "none"))
    said = command(TOO_LARGE, fix, {"--draft": "small", "--draft-kv": "q8_0"})
    assert said == "specchat -m qwen3-32b --draft none --ctx 16384"


def test_a_sentence_says_what_is_needed_and_what_there_is() -> None:
    assert sentence(FITS) == (
        f"qwen3-14b with a context of 16,384 fits: it needs {mebibytes(FITS.demand.total)} of 23,664 MiB usable on "
        "planned card, 24 GiB (an estimate). Up to 40,960 would fit."
    )
    assert f"{mebibytes(TOO_LARGE.missing)} too many" in sentence(TOO_LARGE)


def test_what_was_measured_is_not_called_an_estimate() -> None:
    exact = replace(FITS, demand=replace(FITS.demand, exact=True))
    assert "estimate" not in sentence(exact)
    assert as_data(exact)["exact"] is True


@pytest.mark.parametrize("width", [30, 40, 56, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for verdict in (FITS, TOO_LARGE):
        lines = shown(verdict, width).splitlines()
        assert max(map(cell_len, lines)) <= width
        for label in ("target weights", "draft KV", "margin", "free"):
            assert any(label in line for line in lines)


def bar(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("██"))


def test_the_bar_is_to_scale() -> None:
    drawn = bar(shown(FITS, 80))
    assert len(drawn) == 60
    assert drawn.count("█") == pytest.approx(60 * FITS.demand.target.device.weights / CARD.free, abs=1)
    assert drawn.count("·") == pytest.approx(60 * (CARD.usable - FITS.demand.total) / CARD.free, abs=1)


def test_the_bar_of_what_does_not_fit_has_no_free_end() -> None:
    assert "·" not in bar(shown(TOO_LARGE, 80))


def test_parts_are_told_apart_without_colour() -> None:
    labels = re.findall(r"^(\S) (?:target|draft|overhead|margin)", shown(FITS, 80), re.MULTILINE)
    assert len(labels) == len(set(labels)) == 8


def test_the_way_out_is_a_command_to_copy() -> None:
    assert f"Try: specchat -m qwen3-32b --ctx {TOO_LARGE.largest_context}" in shown(TOO_LARGE, 80)


def test_where_nothing_helps_that_is_said() -> None:
    hopeless = judge(QWEN3_32B, PLAN, planned(512 * MIB))
    assert "Nothing here makes it fit" in shown(hopeless, 80)
    assert as_data(hopeless)["command"] is None


def environment(*, terminal: bool = False, **variables: str) -> Environment:
    return Environment(None, io.BytesIO(), io.BytesIO(), False, terminal, False, variables)


def run(model: str, variables: Mapping[str, str] | None = None, **options: Any) -> tuple[ExitCode, str, str]:
    terminal = options.pop("terminal", False)
    streams = environment(terminal=terminal, **(variables or {}))
    code = fit_model(streams, model, **options)
    assert isinstance(streams.stdout, io.BytesIO)
    assert isinstance(streams.stderr, io.BytesIO)
    return code, streams.stdout.getvalue().decode(), streams.stderr.getvalue().decode()


def test_the_14b_pair_fits_a_24_gib_card_and_the_figure_is_right() -> None:
    """13,302 MiB is what the two models' own dimensions add up to (research/vram-models.md 3.1)."""
    code, out, _ = run("qwen3-14b", ctx=16_384, vram="24GiB", as_json=True)
    data = json.loads(out)
    assert (code, data["fits"], data["exact"], data["planned"]) == (ExitCode.OK, True, False, True)
    assert data["total_bytes"] == pytest.approx(13_302 * MIB, rel=0.03)
    assert data["draft"]["cache"] == 16_384 * 112 * 1024
    assert data["overhead_bytes"] == 400 * MIB


def test_the_32b_pair_does_not_and_the_fixes_lead_to_a_plan_that_does() -> None:
    code, out, _ = run("qwen3-32b", ctx=16_384, vram="24GiB", as_json=True)
    data = json.loads(out)
    assert (code, data["fits"]) == (ExitCode.DOES_NOT_FIT, False)
    words = shlex.split(data["command"])
    context = int(words[words.index("--ctx") + 1])
    assert context == data["largest_context"]
    assert run("qwen3-32b", ctx=context, vram="24GiB")[0] is ExitCode.OK
    assert run("qwen3-32b", ctx=context + 256, vram="24GiB")[0] is ExitCode.DOES_NOT_FIT


@pytest.mark.parametrize(
    ("options", "change"),
    [(("--kv", "q8_0"), {"kv": "q8_0"}), (("--draft", "none"), {"draft": "none"})],
)
def test_each_fix_of_the_32b_pair_gives_the_total_that_it_names(options: tuple[str, str], change: Any) -> None:
    _, out, _ = run("qwen3-32b", ctx=16_384, vram="24GiB", as_json=True)
    fix = next(fix for fix in json.loads(out)["fixes"] if tuple(fix["options"]) == options)
    code, out, _ = run("qwen3-32b", ctx=16_384, vram="24GiB", as_json=True, **change)
    assert json.loads(out)["total_bytes"] == fix["total_bytes"]
    assert (code is ExitCode.OK) == fix["fits"]


@pytest.mark.demo
def test_the_demo_is_measured_exactly_with_its_draft() -> None:
    code, out, _ = run("demo", as_json=True)
    data = json.loads(out)
    assert (code, data["fits"], data["exact"], data["context"]) == (ExitCode.OK, True, True, 4096)
    assert data["draft"]["weights"] > 0


def test_for_people_the_report_goes_to_stdout_without_colour_where_no_terminal_is() -> None:
    code, out, err = run("qwen3-32b", ctx=16_384, vram="24GiB")
    assert code is ExitCode.DOES_NOT_FIT
    assert "does not fit" in out
    assert ESCAPE not in out
    assert err == ""
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_terminal_gets_colour_unless_it_wants_none() -> None:
    asked: dict[str, Any] = {"ctx": 16_384, "vram": "24GiB", "terminal": True}
    assert ESCAPE in run("qwen3-32b", **asked)[1]
    assert ESCAPE not in run("qwen3-32b", {"NO_COLOR": "1"}, **asked)[1]
    assert ESCAPE not in run("qwen3-32b", {"TERM": "dumb"}, **asked)[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"vram": "much"}, "--vram"), ({"kv": "q3"}, "q3"), ({"ctx": 3}, "ctx"), ({"gpu_layers": -5}, "gpu-layers")],
)
def test_options_that_can_not_be_meant_are_sentences(options: dict[str, Any], words: str) -> None:
    code, out, err = run("qwen3-32b", **options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert words in err
    assert "Traceback" not in err


def test_a_model_that_nobody_knows_is_unavailable() -> None:
    assert run("qwen3-15b", vram="24GiB")[0] is ExitCode.MODEL_UNAVAILABLE


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0")
    code, _, err = run(str(path))
    assert code is ExitCode.MODEL_UNAVAILABLE
    assert "damaged" in err


def rows_of(text: str) -> dict[str, str]:
    found = re.findall(r"^\S +((?:target|head|draft) [\w-]+(?: compute)?) +([\d,]+ MiB)", text, re.MULTILINE)
    return dict(found)


def test_an_mtp_head_its_rows_and_roll_back_memory_have_rows_of_their_own() -> None:
    code, out, _ = run("qwen3.6-27b-mtp", ctx=32_768, vram="24GiB")
    assert code is ExitCode.OK
    rows = rows_of(out)
    assert (rows["head weights"], rows["head KV"]) == ("276 MiB", "128 MiB")
    assert {"head compute", "head rows", "target rows", "target roll-back", "target KV"} <= set(rows)
    assert not any(name.startswith("draft") for name in rows)
    # Eight snapshots of 149.6 MiB.
    assert rows["target roll-back"] == "1,197 MiB"


def test_for_programs_they_are_parts_that_add_up() -> None:
    _, out, _ = run("qwen3.6-27b-mtp", ctx=32_768, vram="24GiB", as_json=True)
    data = json.loads(out)
    assert data["head"] == "mtp"
    assert data["total_bytes"] == sum(data["target"].values()) + sum(data["draft"].values())
    assert data["target"]["rollback"] == 8 * 48 * (3 * 10240 + 128 * 6144) * 4
    assert data["draft"]["weights"] == 289_528_736


def test_without_the_head_the_command_asks_for_no_cache_of_a_draft() -> None:
    _, out, _ = run("qwen3.6-27b-mtp", ctx=8192, vram="17GiB", as_json=True, draft_kv="q8_0")
    fix = next(fix for fix in json.loads(out)["fixes"] if fix["options"] == ["--method", "suffix"])
    assert fix["frees_bytes"] > 289_528_736
