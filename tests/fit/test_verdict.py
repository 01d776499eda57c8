"""A verdict says whether a plan fits, how far it could go, and what to change, each with the bytes it frees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.fit.memory import Memory, planned
from specchat.fit.request import FitRequest
from specchat.fit.search import largest
from specchat.fit.verdict import Candidate, Fix, Plan, Verdict, judge, with_request
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError
from tests.fit.planned_models import DRAFT, MIB, QWEN3_14B, QWEN3_32B, Size, candidate

CARD = planned(24 << 30)


def plan(context: int = 16_384, **changes: object) -> Plan:
    return with_request(Plan(FitRequest(context=context, on_device=True, flash_attention=True)), **changes)


def by_option(verdict: Verdict, *options: str) -> Fix:
    return next(fix for fix in verdict.fixes if fix.options == options)


def test_a_pair_that_fits_needs_no_change() -> None:
    verdict = judge(QWEN3_14B, plan(), CARD)
    assert verdict.fits
    assert verdict.missing == 0
    assert verdict.fixes == ()
    assert verdict.way_out is None
    assert verdict.largest_context == 40_960


def test_a_pair_that_does_not_fit_says_by_how_much() -> None:
    verdict = judge(QWEN3_32B, plan(), CARD)
    assert not verdict.fits
    assert verdict.missing == verdict.demand.total - CARD.usable > 0
    assert 11_000 < verdict.largest_context < 13_000


def test_every_change_names_what_it_frees_and_leads_to_what_it_says() -> None:
    verdict = judge(QWEN3_32B, plan(), CARD, [QWEN3_14B])
    assert verdict.fixes
    for fix in verdict.fixes:
        assert fix.frees == verdict.demand.total - fix.demand.total > 0
        assert fix.fits == (fix.demand.total <= CARD.usable)
    draft = by_option(verdict, "--draft-kv", "q8_0")
    assert draft.frees == 16_384 * 112 * 1024 * 15 // 32
    assert (
        by_option(verdict, "--draft", "none").frees
        == verdict.demand.total - QWEN3_32B.measure(replace(plan(), draft=False)).total
    )


def test_changes_come_in_order_of_value() -> None:
    verdict = judge(QWEN3_32B, plan(), CARD, [QWEN3_14B])
    assert [fix.options[0] for fix in verdict.fixes] == [
        "--ctx", "--draft-kv", "--kv", "--draft", "-m", "--gpu-layers",
    ]  # fmt: skip
    assert verdict.way_out is verdict.fixes[0]


def test_the_smaller_context_fits_and_the_next_larger_does_not() -> None:
    verdict = judge(QWEN3_32B, plan(), CARD)
    context = verdict.fixes[0].demand.context
    assert verdict.fixes[0].options == ("--ctx", str(context))
    assert context == verdict.largest_context
    assert QWEN3_32B.measure(plan(context)).total <= CARD.usable < QWEN3_32B.measure(plan(context + 256)).total


def test_the_most_layers_that_fit_are_proposed() -> None:
    fix = next(fix for fix in judge(QWEN3_32B, plan(), CARD).fixes if fix.options[0] == "--gpu-layers")
    layers = int(fix.options[1])
    assert fix.fits
    assert QWEN3_32B.measure(plan(gpu_layers=layers)).total <= CARD.usable
    assert QWEN3_32B.measure(plan(gpu_layers=layers + 1)).total > CARD.usable


def test_changes_are_put_together_where_none_alone_keeps_the_context() -> None:
    model = candidate("large", Size(18_000, 256, 200), Size(400, 112, 40))
    verdict = judge(model, plan(24_576), CARD)
    steps = [fix for fix in verdict.fixes if fix.options[0] in ("--draft-kv", "--kv", "--draft")]
    assert [fix.fits for fix in steps[:-1]] == [False] * 3
    together = verdict.fixes[-1]
    assert together.options == ("--draft-kv", "q8_0", "--kv", "q8_0")
    assert together.what == "draft KV q8_0 and target KV q8_0"
    assert together.fits
    assert together.demand.context == 24_576


def test_where_even_that_is_too_much_a_smaller_context_joins_in() -> None:
    """A processor's memory: there are no layers to move away from it."""
    memory = Memory("CPU", 8192 * MIB, 7024 * MIB, 0, 512 * MIB, on_device=False)
    model = candidate("tight", Size(6_000, 512, 100), Size(700, 64, 50), on_device=False)
    verdict = judge(model, with_request(plan(), on_device=False), memory)
    assert verdict.largest_context == 0
    way_out = verdict.way_out
    assert way_out is verdict.fixes[-1]
    assert way_out is not None
    assert way_out.options[:4] == ("--kv", "q8_0", "--draft", "none")
    assert way_out.options[-2] == "--ctx"
    assert way_out.demand.total <= memory.usable


def test_dropping_the_draft_and_quantising_its_cache_are_never_proposed_together() -> None:
    for weights in range(14_000, 24_000, 500):
        model = candidate("any", Size(weights, 256, 200), DRAFT)
        for fix in judge(model, plan(20_480), CARD).fixes:
            assert not {"--draft", "--draft-kv"} <= set(fix.options)


def test_a_model_far_too_large_still_has_layers_on_the_card() -> None:
    verdict = judge(candidate("huge", Size(60_000, 256, 200)), plan(), CARD)
    assert verdict.largest_context == 0
    assert verdict.way_out is not None
    assert verdict.way_out.options[0] == "--gpu-layers"


def test_where_nothing_helps_there_is_no_way_out() -> None:
    verdict = judge(QWEN3_32B, plan(), planned(512 * MIB))
    assert not verdict.fits
    assert verdict.way_out is None


def test_another_model_is_the_first_that_fits_with_its_own_draft() -> None:
    too_large = candidate("llama-70b", Size(40_000, 320, 300))
    plain = candidate("mistral-small", Size(13_302, 160, 200))
    verdict = judge(QWEN3_32B, plan(), CARD, [too_large, plain, QWEN3_14B])
    other = next(fix for fix in verdict.fixes if fix.options[0] == "-m")
    assert other.options == ("-m", "mistral-small")
    assert other.model == "mistral-small"
    assert other.demand == plain.measure(replace(plan(), draft=False))


def test_other_models_are_not_even_looked_at_where_the_plan_fits() -> None:
    others = iter([QWEN3_32B])
    assert judge(QWEN3_14B, plan(), CARD, others).fits
    assert next(others) is QWEN3_32B


def test_a_change_that_llama_cpp_would_refuse_is_not_proposed() -> None:
    model = candidate("odd heads", Size(18_424, 256, 212), DRAFT, quantises=False)
    options = [fix.options[0] for fix in judge(model, plan(), CARD).fixes]
    assert options == ["--ctx", "--draft", "--gpu-layers"]


def test_a_plan_that_llama_cpp_would_refuse_is_an_error() -> None:
    model = candidate("odd heads", Size(18_424, 256, 212), DRAFT, quantises=False)
    with pytest.raises(LlamaError, match="quantised"):
        judge(model, plan(kv_type=KVType.Q8_0), CARD)


def test_what_is_done_already_is_not_proposed_again() -> None:
    asked = replace(plan(65_536, kv_type=KVType.Q8_0, gpu_layers=60), draft=False)
    options = {fix.options[0] for fix in judge(QWEN3_32B, asked, CARD).fixes}
    assert options == {"--ctx"}


def test_a_model_without_a_draft_is_judged_without_one() -> None:
    verdict = judge(candidate("alone", Size(18_424, 256, 212)), plan(), CARD)
    assert not verdict.plan.draft
    assert verdict.demand.draft is None
    assert verdict.fits


def test_on_a_processor_layers_stay_where_they_are() -> None:
    model = candidate("any", Size(18_424, 256, 212), DRAFT, on_device=False)
    memory = Memory("CPU", 24 << 30, 22 << 30, 0, 512 * MIB, on_device=False)
    verdict = judge(model, with_request(plan(), on_device=False), memory)
    assert verdict.fixes
    assert all("--gpu-layers" not in fix.options for fix in verdict.fixes)


def test_a_context_beyond_the_trained_one_can_fit() -> None:
    verdict = judge(candidate("short", Size(1_000, 16, 50), trained=2_048), plan(8_192), CARD)
    assert verdict.fits
    assert verdict.largest_context == 8_192


@given(edge=st.integers(0, 2_000_000), longest=st.integers(0, 1_200_000))
def test_the_search_finds_the_edge(edge: int, longest: int) -> None:
    found = largest(lambda cells: cells <= edge, longest)
    assert found <= min(edge, longest)
    assert found == longest or found + 256 > edge or found + 256 > longest


@settings(max_examples=40)
@given(
    weights=st.integers(100, 30_000),
    cache=st.integers(1, 600),
    draft=st.integers(1, 300),
    context=st.integers(256, 131_072),
    card=st.integers(2, 48),
)
def test_whatever_is_called_enough_is_enough(weights: int, cache: int, draft: int, context: int, card: int) -> None:
    model: Candidate = candidate("any", Size(weights, cache, 200), Size(600, draft, 40), trained=131_072)
    memory = planned(card << 30)
    verdict = judge(model, plan(context), memory)
    assert verdict.fits == (verdict.demand.total <= memory.usable)
    assert verdict.fits == (verdict.largest_context >= context)
    for fix in verdict.fixes:
        assert fix.fits == (fix.demand.total <= memory.usable)
        assert fix.frees > 0
