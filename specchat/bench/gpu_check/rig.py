"""A target and its draft as the engine opens them, and answers written with them by the engine's own loop."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from specchat.bench.gpu_check.model_file import FIRST_WORD
from specchat.bench.gpu_check.oracle import PaidOracle
from specchat.bench.gpu_check.shapes import Plan
from specchat.bench.gpu_check.timed import TimedContext
from specchat.bench.synthetic import OracleDrafter
from specchat.drafters.auto import AutoDrafter
from specchat.drafters.base import Drafter, NoDrafter
from specchat.drafters.costs import Costs
from specchat.drafters.method import Method
from specchat.drafters.model import ModelDrafter
from specchat.engine.loop import Loop
from specchat.engine.settings import EngineSettings
from specchat.engine.sizes import draft_params, target_params
from specchat.engine.stopping import StopRule, Unwatched
from specchat.llama.context import Context
from specchat.llama.model import Model
from specchat.llama.threads import usable_threads
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.metrics import Metrics
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler

GREEDY = SamplingParams(temperature=0)


def settings_of(plan: Plan, target: Path, draft: Path) -> EngineSettings:
    """What an engine would be asked for that drafts as far as the longest pass."""
    return EngineSettings(target, draft, Method.DRAFT, draft_tokens=plan.rows - 1, context=plan.context)


@dataclass(frozen=True, slots=True)
class Written:
    """One answer. The first step, which no draft precedes, is not in the times."""

    ids: list[int]
    metrics: Metrics
    steps: int
    tokens: int
    wall_s: float
    target_s: float
    """In passes of the target."""
    draft_s: float
    """In passes of the draft."""

    @property
    def token_s(self) -> float:
        """Seconds a token."""
        return self.wall_s / self.tokens

    @property
    def step_s(self) -> float:
        """Seconds a step."""
        return self.wall_s / self.steps

    @property
    def host_s(self) -> float:
        """Seconds a step outside the passes: sampler, acceptance, bookkeeping."""
        return (self.wall_s - self.target_s - self.draft_s) / self.steps


class Rig:
    """Two open contexts; `prompt` is what every answer follows."""

    def __init__(self, plan: Plan, target: Context, draft: Context) -> None:
        self.plan = plan
        self.target = target
        self.draft = draft
        self._timed_target, self._timed_draft = TimedContext(target), TimedContext(draft)
        self.prompt = words(plan.prompt, target.model.vocab.size)
        self.drafter = ModelDrafter(
            self._timed_draft,
            shared_vocabulary=min(target.model.vocab.size, draft.model.vocab.size),
            is_end_of_generation=target.model.vocab.is_end_of_generation,
        )

    def plainly(self, params: SamplingParams = GREEDY) -> Written:
        """An answer of which nothing is drafted."""
        return self.write(NoDrafter(), 0, params)

    def drafted(self, text: Sequence[int], alpha: float, depth: int, params: SamplingParams = GREEDY) -> Written:
        """An answer to which the oracle drafts `text`; right with probability `alpha`."""
        return self.write(PaidOracle(self.drafter, text, alpha), depth, params)

    def drafted_freely(self, text: Sequence[int], alpha: float, depth: int) -> Written:
        """The same without a draft model: its drafts cost nothing."""
        oracle = OracleDrafter(alpha, self.target.model.vocab.size)
        oracle.text = text
        return self.write(oracle, depth, GREEDY)

    def chooser(self, text: Sequence[int], alpha: float) -> AutoDrafter:
        """What `-k auto` is, with the oracle for its draft model; it has measured nothing yet, and keeps nothing."""
        costs = Costs(["gpu-check", uuid.uuid4().hex], [], [Method.DRAFT.value], self.plan.rows - 1)
        return AutoDrafter(costs, {}, {Method.DRAFT.value: PaidOracle(self.drafter, text, alpha)}, method=Method.DRAFT)

    def begin_draft(self) -> None:
        """Let the draft model read the prompt; its proposals are its own then."""
        self.drafter.begin(self.prompt, Sampler(GREEDY, acceptance_rule(AcceptanceMode.EXACT, seed=1)))

    def write(self, drafter: Drafter, depth: int, params: SamplingParams = GREEDY) -> Written:
        """An answer to the prompt by the engine's loop, with at most `depth` tokens drafted a step."""
        target, draft, prompt = self._timed_target, self._timed_draft, self.prompt
        if target.tokens[: len(prompt)] == prompt:
            target.truncate(len(prompt) - 1)
        else:
            target.clear()
            target.prefill(prompt[:-1])
        sampler = Sampler(params, acceptance_rule(AcceptanceMode.EXACT, seed=1))
        stop = StopRule(self.target.model.vocab.is_end_of_generation, self.plan.tokens, Unwatched())
        loop = Loop(target, drafter, sampler, depth=depth, stop=stop)
        steps = loop.run(prompt)
        emitted = len(next(steps).tokens)
        drafter.begin(loop.history, sampler)  # reads the prompt, untimed: the loop's own call then finds it read
        before = target.seconds, draft.seconds
        started = time.perf_counter()
        for _ in steps:
            pass
        wall = time.perf_counter() - started
        spent = target.seconds - before[0], draft.seconds - before[1]
        count = loop.metrics.steps - 1
        return Written(list(loop.history), loop.metrics, count, loop.metrics.emitted - emitted, wall, *spent)


def words(count: int, vocabulary: int) -> list[int]:
    """`count` token ids of words, scattered over a vocabulary of that size; the last one leaves room for a text."""
    span = (vocabulary - FIRST_WORD) // 2
    return [FIRST_WORD + i * 7919 % span for i in range(count)]


@contextmanager
def opened(plan: Plan, target: Path, draft: Path) -> Iterator[Rig]:
    """The pair, loaded as the engine loads it. Raises ModelUnusable and DoesNotFit."""
    settings, threads = settings_of(plan, target, draft), plan.threads or usable_threads()
    with ExitStack() as stack:
        model = stack.enter_context(Model(target))
        params = target_params(settings, n_ctx_train=model.n_ctx_train, recurrent=model.recurrent, threads=threads)
        context = stack.enter_context(Context(model, params))
        small = stack.enter_context(Model(draft))
        draft_context = stack.enter_context(Context(small, draft_params(context.n_ctx, threads=threads)))
        yield Rig(plan, context, draft_context)
