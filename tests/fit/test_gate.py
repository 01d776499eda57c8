"""Nothing that does not fit is loaded: the check before every load, and what it tells the user to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.chat.session import ModelRequest, open_session
from specchat.drafters.method import Method
from specchat.engine.settings import EngineSettings
from specchat.fit import check, gate
from specchat.fit.exact import ExactMeasure, FitUnavailable, measure
from specchat.fit.gate import require_fit
from specchat.fit.memory import Memory
from specchat.fit.pairs import Pair, shape_here
from specchat.fit.shape import shape_of
from specchat.llama.context_params import KVType
from specchat.llama.errors import DoesNotFit, ModelUnusable
from specchat.llama.gguf import read_header
from tests.fit.split_model import write_split_model
from tests.tiny_model import write_model

MIB = 1 << 20


SetFree = Callable[[int], None]


@pytest.fixture
def with_free(monkeypatch: pytest.MonkeyPatch) -> SetFree:
    """A machine with so much free memory."""

    def set_free(free: int) -> None:
        memory = Memory("CPU", 64 << 30, free, 0, 0, False)
        monkeypatch.setattr(check, "host", lambda: memory)
        monkeypatch.setattr(gate, "host", lambda: memory)

    return set_free


def needed(pair: Pair, settings: EngineSettings) -> int:
    assert isinstance(pair.target, Path)
    assert pair.draft is None or isinstance(pair.draft, Path)
    request = check.request_for(settings, n_ctx_train=512, on_device=False)
    return measure(pair.target, pair.draft, request).total


@pytest.fixture
def pair(tiny: Path, tmp_path: Path) -> Pair:
    return Pair("tiny", tiny, write_model(tmp_path / "draft.gguf", layers=1))


def settings_of(pair: Pair, **changes: object) -> EngineSettings:
    assert isinstance(pair.target, Path)
    assert pair.draft is None or isinstance(pair.draft, Path)
    return replace(EngineSettings(pair.target, pair.draft, Method.AUTO), **changes)  # type: ignore[arg-type]


def test_to_the_byte_what_fits_passes_and_one_byte_less_does_not(pair: Pair, with_free: SetFree) -> None:
    settings = settings_of(pair)
    bytes_needed = needed(pair, settings)
    with_free(bytes_needed)
    require_fit(pair, settings)
    with_free(bytes_needed - 1)
    with pytest.raises(DoesNotFit, match=r"tiny with a context of 512 does not fit: .* --force"):
        require_fit(pair, settings)


def test_the_draft_counts(pair: Pair, with_free: SetFree) -> None:
    alone = replace(pair, draft=None)
    with_free((needed(pair, settings_of(pair)) + needed(alone, settings_of(alone))) // 2)
    require_fit(alone, settings_of(alone))
    with pytest.raises(DoesNotFit, match=r"no draft model: suffix drafts instead \(frees 1 MiB\)"):
        require_fit(pair, settings_of(pair))


def test_the_way_out_is_a_command_with_what_was_chosen(pair: Pair, with_free: SetFree) -> None:
    settings = settings_of(pair, context=200_000, kv_type=KVType.F16, gpu_layers=0)
    with_free(needed(pair, settings) // 2)
    with pytest.raises(DoesNotFit, match=r"Try: specchat -m tiny --gpu-layers 0 .*--ctx \d+"):
        require_fit(pair, settings)


def test_where_nothing_makes_it_fit_that_is_said(pair: Pair, with_free: SetFree) -> None:
    with_free(1000)
    with pytest.raises(DoesNotFit, match="Nothing makes it fit; choose a smaller model"):
        require_fit(pair, settings_of(pair))


def test_with_plenty_of_room_no_process_is_asked(
    pair: Pair, with_free: SetFree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe() -> ExactMeasure:
        raise AssertionError("llama.cpp was asked")

    monkeypatch.setattr(check, "ExactMeasure", probe)
    with_free(64 << 30)
    require_fit(pair, settings_of(pair))


def test_without_a_probe_the_estimate_decides(pair: Pair, with_free: SetFree, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe() -> ExactMeasure:
        raise FitUnavailable("not here")

    monkeypatch.setattr(check, "ExactMeasure", probe)
    with_free(MIB)
    with pytest.raises(DoesNotFit, match=r"\(an estimate\)"):
        require_fit(pair, settings_of(pair))


def test_all_parts_of_a_split_model_count(tmp_path: Path) -> None:
    parts = write_split_model(tmp_path / "big.gguf")
    whole = write_model(tmp_path / "whole.gguf")
    assert shape_here(parts[0]) == shape_of(read_header(whole))
    parts[1].unlink()
    with pytest.raises(ModelUnusable, match=f"There is no file {parts[1]}"):
        shape_here(parts[0])


def test_a_load_that_does_not_fit_is_refused_before_it_starts_and_forced_on_demand(
    tiny: Path, with_free: SetFree
) -> None:
    with_free(MIB)
    request = ModelRequest(model=str(tiny), past_text=False)
    told: list[str] = []
    with pytest.raises(DoesNotFit):
        open_session(request, told=told.append)
    assert told == ["checking that it fits …"]
    open_session(replace(request, force=True)).close()


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("no model")
    with pytest.raises(ModelUnusable, match=r"text\.gguf is not a GGUF model"):
        require_fit(Pair("text", path), EngineSettings(path))
