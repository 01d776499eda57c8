"""`specchat config` and `specchat calibrate`, and how verbs stand beside questions."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest

from specchat.cli.app import app
from specchat.cli.environment import Environment
from specchat.drafters.layer_skip import stored_layer_set
from tests.tiny_model import write_model


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


def run(arguments: Sequence[str | Path]) -> tuple[int, str, str]:
    out, err = BytesIO(), BytesIO()
    environment = Environment(BytesIO(b""), out, err, True, False, False, {})
    code = app([str(argument) for argument in arguments], obj=environment, standalone_mode=False)
    return int(code or 0), out.getvalue().decode(), err.getvalue().decode()


def test_config_names_every_place_and_what_is_set(tmp_path: Path) -> None:
    code, out, err = run(["config"])
    assert (code, err) == (0, "")
    told = dict(line.split("\t") for line in out.splitlines())
    assert told["past text (suffix)"] == str(tmp_path / "data" / "specchat" / "suffix")
    assert told["past text is kept"] == "yes"
    (tmp_path / "config" / "specchat").mkdir(parents=True)
    (tmp_path / "config" / "specchat" / "config.toml").write_text("[suffix]\nremember = false\n")
    assert "past text is kept\tno" in run(["config"])[1]
    (tmp_path / "config" / "specchat" / "config.toml").write_text("remember = false\n")
    code, out, err = run(["config"])
    assert (code, out) == (2, "")
    assert "config.toml" in err


def test_what_is_no_verb_is_a_question(tiny: Path) -> None:
    code, _, err = run(["configure", "-m", "/nowhere.gguf"])
    assert code == 3
    assert "no file /nowhere.gguf" in err
    code, out, _ = run(["-m", tiny, "-n", "3", "a question"])
    assert code == 0
    assert out.endswith("\n")


def test_a_calibrated_layer_set_is_printed_kept_and_used(tmp_path: Path) -> None:
    model = write_model(tmp_path / "deep.gguf", layers=6)
    code, out, err = run(["calibrate", model, "--method", "layer-skip"])
    assert code == 0, err
    assert "predicted speed" in out
    layers = stored_layer_set(model)
    assert layers
    assert f"dropped layers  {', '.join(map(str, layers))} (of 0 to 5)" in out
    code, answer, err = run(["-m", model, "--method", "layer-skip", "-k", "2", "--json", "-n", "6", "abc"])
    assert code == 0, err
    assert f"-without-{'-'.join(map(str, layers))}.gguf" in answer


def test_a_calibrated_exit_is_printed_and_kept(tmp_path: Path) -> None:
    model = write_model(tmp_path / "deep.gguf", layers=6)
    code, out, err = run(["calibrate", model, "--exit", "3", "--exit", "5"])
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["3", "5"]
    assert "kept: exit after layer" in out
    code, answer, err = run(["-m", model, "--method", "early-exit", "-k", "2", "--json", "-n", "6", "abc"])
    assert code == 0, err
    assert '"method": "early-exit"' in answer


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["calibrate", "nosuch"], 3, "no model 'nosuch'"),
        (["calibrate", "TINY", "--exit", "9"], 2, "--exit must be one of the layers 1 to 2"),
        (["calibrate", "TINY", "--exit", "1", "--method", "layer-skip"], 2, "--exit names layers to leave after"),
        (["calibrate", "TINY", "--method", "layer-skip"], 1, "layers"),
    ],
)
def test_what_can_not_be_calibrated_is_said(tiny: Path, arguments: list[str], code: int, words: str) -> None:
    ended, out, err = run([str(tiny) if word == "TINY" else word for word in arguments])
    assert (ended, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
