"""Several drafters: the free ones are asked first, the dear one must be worth it, and nothing is an answer too."""

from __future__ import annotations

import json
import math
import time

import pytest

from specchat.speculation.arms import PLAIN, Arms, Choice, Offer, Why
from specchat.speculation.warmup import StartPolicy

from .simulation import PLAIN_S, SEEDS, TEXTS, TOKENS, arms_seconds, fixed_arms_seconds, linear, stepped

NOTHING = "copy 0 from match 1, model 0"


@pytest.fixture(scope="module")
def shares() -> dict[str, tuple[float, float]]:
    """Speed over the best single drafter at its best depth, and over plain decoding; mean of the seeds."""
    table = {}
    for name, text in TEXTS.items():
        fixed = [fixed_arms_seconds(text, TOKENS, seed) for seed in SEEDS]
        mine = math.fsum(arms_seconds(text, TOKENS, seed) for seed in SEEDS)
        best = min(math.fsum(run[policy] for run in fixed) for policy in fixed[0])
        table[name] = best / mine, math.fsum(run[NOTHING] for run in fixed) / mine
    return table


def test_as_fast_as_the_best_single_drafter_at_its_best_depth(shares: dict[str, tuple[float, float]]) -> None:
    of_best = [share[0] for share in shares.values()]
    assert math.fsum(of_best) / len(of_best) >= 0.95
    assert min(of_best) >= 0.88


def test_two_drafters_together_beat_each_alone(shares: dict[str, tuple[float, float]]) -> None:
    assert shares["both pay"][0] >= 1.03


def test_where_neither_pays_plain_decoding_hardly_suffers(shares: dict[str, tuple[float, float]]) -> None:
    assert shares["neither pays"][1] >= 0.98
    assert all(plain >= 0.98 for _, plain in shares.values())


def test_a_drafter_used_whatever_it_costs_would_break_that_bound() -> None:
    fixed = fixed_arms_seconds(TEXTS["neither pays"], TOKENS, 1)
    assert fixed[NOTHING] / fixed["copy 3 from match 1, model 0"] < 0.9
    assert fixed[NOTHING] / fixed["copy 0 from match 1, model 3"] < 0.9


def taught(arms: Arms, *, strong: bool) -> Arms:
    """After 400 steps with offers whose long matches are right (`strong`) and whose short ones are not."""
    for step in range(400):
        match = 8 if step % 2 else 1
        choice = arms.choose({"suffix": Offer(20, match)})
        accepted = choice.depth if match > 1 and strong else 0
        arms.record(choice, min(accepted + 1, choice.depth), accepted, 1e-5, linear(choice.depth + 1))
    return arms


def test_a_strong_match_is_verified_and_a_weak_one_is_not() -> None:
    arms = taught(Arms(("suffix",)), strong=True)
    good, bad = arms.choose({"suffix": Offer(20, 8)}), arms.choose({"suffix": Offer(20, 1)})
    assert (good.arm, good.why) == ("suffix", Why.OFFER)
    assert bad == Choice(PLAIN, 0, Why.NOTHING_PAYS)
    assert taught(Arms(("suffix",)), strong=False).choose({"suffix": Offer(20, 8)}).arm == PLAIN


def test_never_more_than_is_offered_or_wanted() -> None:
    arms = taught(Arms(("suffix",)), strong=True)
    assert arms.choose({"suffix": Offer(20, 8)}).depth > 3
    assert arms.choose({"suffix": Offer(3, 8)}).depth <= 3
    assert arms.choose({"suffix": Offer(20, 8)}, limit=2).depth <= 2
    assert arms.choose({"suffix": Offer(0, 8)}) == Choice(PLAIN, 0, Why.NOTHING_PAYS)


def test_a_long_match_sorts_offers_and_is_not_believed() -> None:
    assert Offer(5, match=12).strength != Offer(5, match=3).strength
    arms = Arms(("rest",))
    for _ in range(400):
        choice = arms.choose({"rest": Offer(7, match=16)})
        arms.record(choice, min(1, choice.depth), 0, 1e-5, linear(choice.depth + 1))
    assert arms.choose({"rest": Offer(7, match=16)}).arm == PLAIN


def test_a_drafter_that_may_not_be_used_yet_is_not_chosen() -> None:
    arms = Arms((), ("draft",))
    for _ in range(60):
        choice = arms.choose({})
        arms.record(choice, choice.depth, choice.depth, choice.depth * 0.002, stepped(choice.depth + 1))
    assert arms.choose({}).arm == "draft"
    assert arms.choose({}, available=()) == Choice(PLAIN, 0, Why.NOTHING_PAYS)


def test_a_drafter_never_used_has_no_rate() -> None:
    arms = taught(Arms(("suffix",), ("draft",)), strong=True)
    used = Arms((), ("draft",))
    for _ in range(100):
        choice = used.choose({})
        used.record(choice, choice.depth, choice.depth, choice.depth * 0.002, stepped(choice.depth + 1))
        if choice.arm == "draft":
            break
        assert used.expected_rates("draft")[0] == 0
    for _ in range(20):
        choice = used.choose({})
        used.record(choice, choice.depth, choice.depth, choice.depth * 0.002, stepped(choice.depth + 1))
    drafting, plain = used.expected_rates("draft")
    assert plain == pytest.approx(1 / stepped(1), rel=0.05)
    assert drafting > 1.5 * plain
    assert arms.expected_rates("draft")[1] == pytest.approx(1 / linear(1), rel=0.05)


def test_catching_up_after_a_long_copy_is_a_cost() -> None:
    """A drafter that would have to read a long text first is left alone until that pays."""
    arms = Arms(("suffix",), ("draft",))
    arms.begun("draft", 100, 100 * 0.05 * PLAIN_S)
    for _ in range(200):
        choice = arms.choose({})
        accepted = min(choice.depth, 1)
        tested = min(choice.depth, 2)
        arms.record(choice, tested, accepted, choice.depth * 0.01, linear(choice.depth + 1) * 0.8)
    assert arms.choose({}).arm == "draft"
    for _ in range(60):
        arms.record(Choice("suffix", 7, Why.OFFER, 4), 7, 7, 1e-5, linear(8))
    assert arms.choose({}).arm == PLAIN
    arms.begun("draft", 480, 0.5)
    assert arms.choose({}).arm == "draft"


def test_what_was_learnt_survives_in_a_cache() -> None:
    arms = taught(Arms(("suffix",), ("draft",)), strong=True)
    again = Arms.from_dict(json.loads(json.dumps(arms.to_dict())), ("suffix",), ("draft",))
    measured = again.target.estimate(1)
    assert measured is not None
    assert measured.seconds == pytest.approx(linear(1), rel=0.1)
    with pytest.raises(ValueError, match="measure anew"):
        Arms.from_dict({"version": 1, "target": {}})


def test_an_unknown_drafter_is_an_error() -> None:
    with pytest.raises(KeyError, match="lookahead"):
        Arms(("suffix",)).choose({"lookahead": 3})


def test_a_plain_step_costs_little() -> None:
    """20 µs on a quiet machine; the bound leaves room for a busy one."""
    arms = Arms(("suffix", "prompt-lookup", "rest"), ("draft",))
    times = []
    for _ in range(12):
        started = time.thread_time()
        for _ in range(100):
            choice = arms.choose({})
            arms.record(choice, min(1, choice.depth), 0, choice.depth * 0.01, linear(choice.depth + 1), 300)
        times.append((time.thread_time() - started) / 100)
    assert min(times[4:]) <= 100e-6


def test_a_short_answer_to_a_long_prompt_never_starts_the_drafter() -> None:
    policy = StartPolicy(seconds_per_token=0.002)

    def starts(prompt: int, emitted: int, limit: int | None = None) -> bool:
        return policy.worth_starting(prompt, emitted, drafting_tok_s=15.0, plain_tok_s=10.0, limit=limit)

    assert not any(starts(1000, emitted) for emitted in range(1, 17))
    assert starts(1000, 100)
    assert starts(20, 4), "a short prompt is read at once"
    assert not starts(1000, 100, limit=10)
    assert not policy.worth_starting(20, 500, drafting_tok_s=9.0, plain_tok_s=10.0), "it does not pay at all"


def test_earlier_answers_tell_how_long_this_one_may_be() -> None:
    policy = StartPolicy(seconds_per_token=0.002)
    for tokens in (400, 500, 600):
        policy.record_answer(tokens)
    assert policy.worth_starting(1000, 2, drafting_tok_s=15.0, plain_tok_s=10.0)


def test_a_start_never_timed_waits_for_sixteen_tokens() -> None:
    policy = StartPolicy()
    assert policy.start_s(100) is None
    assert not policy.worth_starting(1000, 15, drafting_tok_s=0.0, plain_tok_s=0.0)
    assert policy.worth_starting(1000, 16, drafting_tok_s=0.0, plain_tok_s=0.0)
    policy.record_start(1000, 4.0)
    assert policy.start_s(500) == pytest.approx(2.0)
