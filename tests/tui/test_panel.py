"""The panel of figures: what it draws, and that it never claims a speed-up without its base."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specchat.chat.amounts import size
from specchat.tui.engine_state import EngineState
from specchat.tui.header import HeaderFacts, header_line
from specchat.tui.panel.panel import drawn
from specchat.tui.panel.reasons import Choice, why
from specchat.tui.panel.strokes import bar, meter, sparkline
from specchat.tui.panel.theory import theory_of
from specchat.tui.panel.track import Track
from specchat.tui.wording import answer_line, compared, count
from specchat.worker.messages import Figures, Load
from tests.tui.scripted import FIGURES

WIDTH = 32


def panel_of(figures: Figures, choice: Choice | None = None) -> str:
    track = Track()
    track.begin()
    track.finish(figures)
    return drawn(track, choice or Choice("auto"), WIDTH).plain


def test_sparklines_and_bars_are_true_to_scale() -> None:
    assert sparkline([0, 1, 2, 4], 10) == "▁▃▅█"
    assert sparkline([9, 1, 1], 2) == "██"
    assert sparkline([], 5) == sparkline([1], 0) == ""
    assert sparkline([0, 0], 5) == "▁▁"
    assert [bar(share, 4) for share in (0, 0.5, 0.53125, 1, 2)] == ["", "██", "██▏", "████", "████"]
    assert [len(full) for full, _ in (meter(share, 8) for share in (0, 0.001, 0.5, 1, 3))] == [0, 1, 4, 8, 8]


def test_it_shows_every_figure_of_an_answer() -> None:
    text = panel_of(FIGURES)
    rates = ("0.75", "3.00", "60.0", "30.0", "2.00×", "over 30.0 tok/s, measured")
    for words in (*rates, "90%", "draft 25%", "verify 75%", "depth 3 · suffix", "copied text pays here", "4.00"):
        assert words in text, words


def test_there_is_no_speed_up_without_its_measured_base() -> None:
    text = panel_of(replace(FIGURES, plain_tok_s=None, speedup=2.0))
    assert "×" not in text
    assert "no plain rate measured yet" in text
    line = answer_line(replace(FIGURES, plain_tok_s=None, speedup=2.0))
    assert "×" not in line
    plain = replace(FIGURES, drafted=0, tested=0, accepted=0, alpha=None, speedup=1.04)
    assert "×" not in panel_of(plain) + answer_line(plain), "plain decoding has none over itself"
    assert "2.00× of 30.0 measured" in answer_line(FIGURES)


def test_an_acceptance_of_trees_is_called_that_of_their_paths() -> None:
    assert "of paths" not in answer_line(FIGURES)
    assert "α 0.75 of paths · " in answer_line(replace(FIGURES, alpha=0.75, trees=3))


@pytest.mark.parametrize("figures", [Figures(), FIGURES, replace(FIGURES, per_position=(0.5,) * 40, draft_s=0.0)])
def test_no_line_is_wider_than_the_panel(figures: Figures) -> None:
    assert max(map(len, panel_of(figures).splitlines())) <= WIDTH


def test_theory_stands_beside_what_was_measured() -> None:
    independent = theory_of(replace(FIGURES, alpha=0.75, per_position=(), depths={5: 9, 0: 20}))
    assert independent is not None
    assert independent.gamma == 5
    assert independent.expected == pytest.approx(3.29, abs=0.005)
    assert independent.ceiling == pytest.approx(4)
    by_position = theory_of(FIGURES)
    assert by_position is not None
    assert by_position.expected == pytest.approx(1 + 0.9 + 0.9 * 0.7 + 0.9 * 0.7 * 0.5)
    certain = panel_of(replace(FIGURES, alpha=1.0))
    assert "no limit" in certain
    assert theory_of(Figures()) is None


def test_the_reason_of_the_last_step_is_what_is_known() -> None:
    assert why(FIGURES, Choice("auto", speculate=False)) == "plain, to compare"
    assert why(FIGURES, Choice("none")) == "no drafting chosen"
    assert why(FIGURES, Choice("draft", 5)) == "5 a step, as you chose"
    assert why(replace(FIGURES, choices={"nothing pays": 9, "trial": 1}), Choice("auto")) == "mostly: nothing pays here"


def test_points_are_of_a_while_and_not_of_the_whole_answer() -> None:
    track = Track()
    track.begin()
    early = replace(FIGURES, tokens=10, steps=10, tested=10, accepted=0, draft_s=0.0, verify_s=1.0)
    late = replace(FIGURES, tokens=50, steps=20, tested=30, accepted=20, draft_s=0.0, verify_s=2.0)
    track.take(early)
    track.take(replace(late, verify_s=1.1))
    assert list(track.series.tok_s) == [10], "a tenth of a second is too short for a point"
    track.take(late)
    track.finish(late)
    assert list(track.series.tok_s) == [10, 40]
    assert list(track.series.alpha) == [0, 1]
    assert list(track.series.tokens_per_step) == [1, 4]
    assert list(track.series.speedup) == pytest.approx([10 / 30, 40 / 30])


def test_answers_are_compared_only_where_one_was_plain() -> None:
    slow = replace(FIGURES, tok_s=30.0)
    assert compared(FIGURES, True, slow, False).startswith("drafting: 2.00× the 30.0 tok/s")
    assert compared(slow, False, FIGURES, True).startswith("plain: 0.50× the 60.0 tok/s")
    assert compared(FIGURES, True, slow, True) == compared(FIGURES, True, None, True) == ""


FACTS = HeaderFacts(
    model="Qwen3-8B Q4_K_M",
    draft="Qwen3-0.6B Q8_0",
    method="draft",
    memory_name="VRAM",
    memory_used=9_800_000_000,
    memory_free=13_800_000_000,
    context_used=3100,
    context=16_384,
)


@pytest.mark.parametrize("width", [140, 118, 98, 78, 60, 38, 20, 5])
def test_the_header_never_runs_over(width: int) -> None:
    for facts in (FACTS, HeaderFacts(state="reading Qwen3-8B (5.0 GB)"), HeaderFacts()):
        assert header_line(facts, width).cell_length <= width


def test_the_header_drops_what_is_needed_least_first() -> None:
    wide, middle, narrow = (header_line(FACTS, width).plain for width in (118, 78, 38))
    assert all(words in wide for words in ("specchat", "← Qwen3-0.6B Q8_0", "draft", "VRAM 9.8 GB/23.6 GB", "3.1k/16k"))
    assert "VRAM" not in middle
    assert "Qwen3-0.6B" in middle
    assert "Qwen3-8B" in narrow
    assert "ctx 3.1k/16k" in narrow


def test_sizes_and_counts_are_short() -> None:
    assert [size(n) for n in (0, 999, 98_362_432, 123_000_000_000)] == ["0 B", "999 B", "98.4 MB", "123 GB"]
    assert [count(n) for n in (312, 3100, 16_384)] == ["312", "3.1k", "16k"]


def test_reloading_smaller_halves_and_plain_drafts_nothing() -> None:
    engine = EngineState(load=Load("m", draft="d", draft_tokens=4, context=9000))
    assert engine.smaller() == Load("m", draft="d", draft_tokens=4, context=4500)
    assert engine.plain() == Load("m", draft=None, method="none", context=9000)
    assert EngineState(load=Load("m", context=1200)).smaller() == Load("m", context=1024)
    assert EngineState().smaller() is None
