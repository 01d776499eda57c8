from __future__ import annotations

import math
import pickle

import pytest

from specchat.speculation.distribution import SamplingParams


def test_defaults_are_those_of_the_chat() -> None:
    params = SamplingParams()
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.8, 40, 0.95, 0.05)
    assert (params.repeat_penalty, params.repeat_last_n) == (1.0, 64)
    assert (params.presence_penalty, params.frequency_penalty, dict(params.logit_bias)) == (0, 0, {})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", -0.1, "at least 0"),
        ("temperature", math.nan, "at least 0"),
        ("temperature", math.inf, "at least 0"),
        ("top_k", -1, "at least 0"),
        ("top_p", 0.0, "above 0 and at most 1"),
        ("top_p", 1.01, "above 0 and at most 1"),
        ("top_p", math.nan, "above 0 and at most 1"),
        ("min_p", -0.01, "between 0 and 1"),
        ("min_p", 1.01, "between 0 and 1"),
        ("repeat_penalty", 0.0, "above 0"),
        ("repeat_penalty", math.inf, "above 0"),
        ("repeat_last_n", -1, "at least 0"),
        ("presence_penalty", 2.1, "between -2 and 2"),
        ("presence_penalty", -2.1, "between -2 and 2"),
        ("frequency_penalty", 2.1, "between -2 and 2"),
        ("frequency_penalty", math.nan, "between -2 and 2"),
    ],
)
def test_a_bad_value_is_named_with_its_range(name: str, value: float, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {value}, but it must be a number {allowed}") as caught:
        SamplingParams(**{name: value})  # type: ignore[arg-type]
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("bias", [{3: math.nan}, {3: math.inf}, {-1: 0.5}])
def test_a_bad_bias_is_refused(bias: dict[int, float]) -> None:
    with pytest.raises(ValueError, match=r"^logit_bias .* token -?\d+"):
        SamplingParams(logit_bias=bias)


@pytest.mark.parametrize(
    "edge",
    [
        SamplingParams(temperature=0, top_k=0, top_p=1, min_p=0),
        SamplingParams(min_p=1, top_p=1e-9, repeat_last_n=0, presence_penalty=-2, frequency_penalty=2),
        SamplingParams(logit_bias={0: -math.inf}),
    ],
)
def test_the_edges_are_allowed_and_travel_between_processes(edge: SamplingParams) -> None:
    assert pickle.loads(pickle.dumps(edge)) == edge


def test_what_is_greedy() -> None:
    assert SamplingParams(temperature=0).greedy
    assert SamplingParams(top_k=1).greedy
    assert not SamplingParams().greedy
