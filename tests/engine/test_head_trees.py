"""With trees of drafts the text is that of plain decoding, whichever branch is right, and what can't branch says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings
from specchat.heads.convert import convert
from specchat.heads.kinds import WeightType
from specchat.speculation.distribution import Distribution
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft
from tests.dflash_models import write_dflash_head
from tests.engine.test_heads import GREEDY, PROMPTS, SEEDED, ask
from tests.head_models import write_eagle_head, write_hybrid_model
from tests.heads.checkpoints import medusa
from tests.tiny_model import write_model

NODES = 7
KINDS = {"eagle": Method.EAGLE, "parallel": Method.P_EAGLE, "dflash": Method.DFLASH, "medusa": Method.MEDUSA}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trees")
    tiny = write_model(directory / "tiny.gguf", layers=4)
    write_eagle_head(directory / "eagle.gguf", tiny, draft_vocab=100)
    write_eagle_head(directory / "parallel.gguf", tiny, draft_vocab=100, mask_token=2)
    write_dflash_head(directory / "dflash.gguf", tiny, draft_vocab=100)
    convert(medusa().write(directory / "medusa"), directory / "medusa.gguf", target=tiny, weight_type=WeightType.F32)
    write_hybrid_model(directory / "hybrid.gguf")
    return directory


def opened(
    files: Path, draft: str | None, method: Method, *, target: str = "tiny", k: int | None = NODES, tree: bool = True
) -> Engine:
    return Engine(
        EngineSettings(
            files / f"{target}.gguf",
            None if draft is None else files / f"{draft}.gguf",
            method,
            draft_tokens=k,
            tree=tree,
            context=256,
            threads=1,
            costs=files / "costs",
        )
    )


@pytest.fixture
def plain(files: Path) -> Iterator[Engine]:
    engine = opened(files, None, Method.NONE, tree=False)
    yield engine
    engine.close()


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, files: Path) -> Iterator[Engine]:
    engine = opened(files, request.param, KINDS[request.param])
    assert engine.target.params.n_seq_max > 1
    yield engine
    assert engine.take_notes() == []
    engine.close()


class Watched:
    """A drafter whose drafts are kept to look at."""

    def __init__(self, drafter: object) -> None:
        self._drafter = drafter
        self.drafts: list[Draft] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._drafter, name)

    def propose(self, limit: int) -> Draft:
        draft = self._drafter.propose(limit)  # type: ignore[attr-defined]
        self.drafts.append(draft)
        return draft  # type: ignore[no-any-return]

    @property
    def branched(self) -> int:
        return sum(draft.parents is not None for draft in self.drafts)


def test_trees_as_the_heads_make_them_leave_the_text_as_it_is(engine: Engine, plain: Engine) -> None:
    engine.drafter = watched = Watched(engine.drafter)  # type: ignore[assignment]
    for prompt in PROMPTS:
        answer = ask(engine, prompt, GREEDY)
        assert answer.token_ids == ask(plain, prompt, GREEDY).token_ids
        assert answer.metrics.trees > 0
    assert watched.branched > 20
    assert max(map(len, watched.drafts)) == NODES


class Forcing:
    """A sampler by which the right token is never the head's first guess for long: other branches are kept."""

    def __init__(self, right_text: Sequence[int], right_at: int) -> None:
        self._text, self._right_at = right_text, right_at
        self.params = GREEDY.sampling
        self.may_branch = True

    def distribution(self, _: NDArray[np.float32], history: Sequence[int]) -> Distribution:
        return Distribution.one_hot(self._text[len(history)] if len(history) < len(self._text) else 9)

    def draw(self, distribution: Distribution, position: int) -> int:
        return distribution.argmax()

    def ranked(self, _: NDArray[np.float32], history: Sequence[int], n: int) -> list[tuple[int, float]]:
        place = len(history)
        right = self._text[place] if place < len(self._text) else 9
        tokens = [(right + 1 + i) % 250 + 3 for i in range(n)]
        tokens[min(n - 1, self._right_at)] = right
        return list(zip(tokens, (0.5, 0.3, 0.15, 0.05), strict=False))


@pytest.mark.parametrize("right_at", range(3))
def test_whichever_branch_is_right_the_text_is_that_of_plain_decoding(
    files: Path, plain: Engine, right_at: int
) -> None:
    """The passes of the head and the target are real, but for the tokens that are taken from the head's rows."""
    engine = opened(files, "eagle", Method.EAGLE)
    real = engine.drafter
    for prompt in PROMPTS:
        expected = ask(plain, prompt, GREEDY).token_ids

        class Steered:
            method = real.method
            commit, close = real.commit, real.close
            drafts: ClassVar[list[Draft]] = []

            def begin(self, ids: Sequence[int], sampler: Sampler, text: Sequence[int] = (*prompt, *expected)) -> None:
                real.begin(ids, sampler)
                real._sampler = Forcing(text, right_at)  # type: ignore[attr-defined]

            def propose(self, limit: int) -> Draft:
                self.drafts.append(real.propose(limit))
                return self.drafts[-1]

            def keeps(self, ids: Sequence[int]) -> int:
                return real.keeps(ids)  # type: ignore[attr-defined, no-any-return]

        engine.drafter = Steered()
        answer = ask(engine, prompt, GREEDY)
        assert answer.token_ids == expected
        assert answer.metrics.accepted > 15
        assert any(draft.parents is not None for draft in Steered.drafts)
    assert engine.take_notes() == []
    real.close()
    engine.close()


def test_where_tokens_are_drawn_trees_are_drafted_too(engine: Engine) -> None:
    engine.drafter = watched = Watched(engine.drafter)  # type: ignore[assignment]
    settings = AnswerSettings(SamplingParams(temperature=0.9), AcceptanceMode.EXACT, seed=3, max_tokens=40)
    assert len(ask(engine, PROMPTS[0], settings).token_ids) == 40
    assert watched.branched > 5


def test_where_draft_and_target_share_their_noise_chains_are_drafted(engine: Engine, plain: Engine) -> None:
    engine.drafter = watched = Watched(engine.drafter)  # type: ignore[assignment]
    answer = ask(engine, PROMPTS[0], SEEDED)
    assert SEEDED.accept is AcceptanceMode.COUPLED
    assert answer.token_ids == ask(plain, PROMPTS[0], SEEDED).token_ids
    assert watched.branched == 0
    (note,) = engine.take_notes()
    assert "chains are drafted, not trees" in note
    ask(engine, PROMPTS[0], SEEDED)


@pytest.mark.parametrize("method", [Method.AUTO, Method.EAGLE])
def test_with_a_chosen_size_the_text_is_that_of_plain_decoding(files: Path, plain: Engine, method: Method) -> None:
    engine = opened(files, "eagle", method, k=None)
    settings = AnswerSettings(SamplingParams(temperature=0), max_tokens=120)
    assert ask(engine, PROMPTS[0], settings).token_ids == ask(plain, PROMPTS[0], settings).token_ids
    engine.close()


def test_a_conversation_goes_on_after_trees(engine: Engine, plain: Engine) -> None:
    talk = list(PROMPTS[1])
    for turn in range(3):
        answer = ask(engine, talk, GREEDY)
        assert answer.token_ids == ask(plain, talk, GREEDY).token_ids
        talk += [*answer.token_ids, 60 + turn, 61, 62]
        if turn == 1:
            talk = talk[:50]


@pytest.mark.parametrize(
    ("target", "draft", "method", "sentence"),
    [
        ("hybrid", None, Method.MTP, "can't read trees of drafts: chains are drafted"),
        ("tiny", None, Method.SUFFIX, "Only trained heads draft trees"),
    ],
)
def test_what_drafts_no_trees_says_so_and_drafts_chains(
    files: Path, target: str, draft: str | None, method: Method, sentence: str
) -> None:
    engine = opened(files, draft, method, target=target)
    (note,) = engine.take_notes()
    assert sentence in note
    assert engine.target.params.n_seq_max == 1
    assert ask(engine, PROMPTS[0], GREEDY).token_ids
    engine.close()
