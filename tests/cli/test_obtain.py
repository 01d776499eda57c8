"""Models come to this machine: what is asked before, what is kept when it stops, what each refusal says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.catalogue import download
from specchat.chat.amounts import size
from specchat.cli import obtain
from specchat.fit import check, gate
from specchat.fit.memory import Memory
from tests.catalogue.loopback_hub import TOKEN, Repository
from tests.command_line import CtrlC, Household, household, run

QUESTION = "A pair (MIT): download tiny-Q4_K_M.gguf (164 kB), draft-Q8_0.gguf (122 kB) to "


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        yield home


def blobs(home: Household) -> list[str]:
    return sorted(path.name for path in home.cache.glob("models--*/blobs/*"))


def asked_of_files(home: Household) -> list[str]:
    """Paths of files that the storage host was asked for as a whole, not only for their headers."""
    return [request.path for request in home.hub.asked("blob") if (request.range or "").endswith("-")]


def test_it_asks_with_sizes_place_and_licence_and_downloads_after_yes(home: Household) -> None:
    code, out, err = run("models", "pull", "pair", typed=b"y\n")
    assert code == 0, err
    assert f"{QUESTION}{home.cache}? [y/N] " in err
    assert "pair with a context of 512 fits: it needs" in err
    assert Path(out.strip()).name == "tiny-Q4_K_M.gguf"
    assert Path(out.strip()).read_bytes() == (home.folder / "tiny-Q4_K_M.gguf").read_bytes()
    assert len(blobs(home)) == 2


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"\x04", b"yess\n"])
def test_anything_but_yes_downloads_nothing(home: Household, answer: bytes) -> None:
    code, out, err = run("models", "pull", "pair", typed=answer)
    assert (code, out) == (3, "")
    assert err.endswith("specchat: Nothing was downloaded.\x1b[0m\n")
    assert blobs(home) == asked_of_files(home) == []


@pytest.mark.parametrize("command", [["models", "pull", "pair"], ["-m", "pair", "hello"]])
def test_ctrl_c_at_the_question_downloads_nothing(home: Household, command: list[str]) -> None:
    code, _, err = run(*command, typed=b"", stderr=CtrlC("[y/N]"))
    assert code == 130
    assert err.endswith("[y/N] \n\x1b[31mspecchat: Nothing was downloaded.\x1b[0m\n")
    assert blobs(home) == []


@pytest.mark.parametrize("command", [["models", "pull", "pair"], ["-m", "pair", "hello"]])
def test_without_a_terminal_it_names_the_command_and_asks_nobody(home: Household, command: list[str]) -> None:
    code, out, err = run(*command)
    assert (code, out) == (3, "")
    assert err == "specchat: A pair is not on this machine. Get it with: specchat models pull pair -y\n"
    assert home.hub.asked() == []


def test_the_command_that_is_named_has_the_size_where_it_is_known(home: Household) -> None:
    code, _, err = run("models", "pull", "qwen3-14b")
    assert code == 3
    assert (
        "Qwen3 14B is not on this machine (9.6 GB to download). Get it with: specchat models pull qwen3-14b -y" in err
    )


@pytest.mark.parametrize("command", [["models", "pull", "pair", "-y"], ["-m", "pair", "-y", "hello"]])
@pytest.mark.parametrize("by_variable", [True, False])
def test_offline_nothing_is_asked_of_the_hub(
    home: Household, monkeypatch: pytest.MonkeyPatch, command: list[str], by_variable: bool
) -> None:
    if by_variable:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, err = run(*command, *([] if by_variable else ["--offline"]))
    assert (code, out) == (3, "")
    assert "the network must not be used (--offline or HF_HUB_OFFLINE)" in err
    assert home.hub.asked() == []


def test_what_was_downloaded_answers_without_a_request(home: Household) -> None:
    assert run("models", "pull", "pair", "-y")[0] == 0
    home.hub.stop()
    home.hub.requests.clear()
    code, out, err = run("-m", "pair", "-n", "4", "hello")
    assert code == 0, err
    assert out.endswith("\n")
    assert err == ""
    code, _, err = run("models", "pull", "pair")
    assert (code, err) == (0, "specchat: A pair is here already.\n")
    assert home.hub.asked() == []


@pytest.mark.parametrize(
    ("reference", "file"),
    [
        ("hf:user/tiny", "tiny-Q4_K_M.gguf"),
        ("hf:user/tiny:Q8_0", "tiny-Q8_0.gguf"),
        ("hf:user/tiny@main:tiny-Q8_0.gguf", "tiny-Q8_0.gguf"),
    ],
)
def test_a_repository_needs_no_entry_and_is_found_again_offline(home: Household, reference: str, file: str) -> None:
    code, _, err = run("-m", reference, "-y", "-n", "3", "hello")
    assert code == 0, err
    assert f"(apache-2.0): download {file} (" in err
    home.hub.stop()
    assert run("-m", reference, "--offline", "-n", "3", "hello").code == 0
    assert Path(run("models", "path", reference).out.strip()).name == file


def test_only_the_draft_missing_is_a_word_not_a_question(home: Household) -> None:
    assert run("models", "pull", "hf:user/tiny:Q4_K_M", "-y").code == 0
    code, _, err = run("-m", "pair", "-n", "4", "hello", typed=b"")
    assert code == 0, err
    assert "The draft model of A pair is not on this machine, so drafts come from text already seen." in err
    assert "specchat models pull pair" in err
    assert len(blobs(home)) == 1
    code, _, err = run("models", "pull", "pair", "-y")
    assert code == 0
    assert "download draft-Q8_0.gguf" in err
    assert "tiny-Q4_K_M.gguf (" not in err
    assert len(blobs(home)) == 2


def test_a_split_model_comes_with_all_its_parts(home: Household) -> None:
    home.hub.repositories["user/split"] = split_model(home)
    code, out, err = run("models", "pull", "hf:user/split", "-y")
    assert code == 0, err
    assert "big-Q4_K_M-00001-of-00003.gguf in 3 parts" in err
    assert "hf:user/split with a context of 512 fits" in err
    assert len(blobs(home)) == 3
    assert run("-m", "hf:user/split", "--offline", "-n", "3", "hello").code == 0
    assert run("-m", out.strip().replace("00001-of", "00002-of"), "-n", "3", "hello").code == 0


def split_model(home: Household) -> Repository:
    from tests.fit.split_model import write_split_model

    repository = Repository({})
    for path in write_split_model(home.folder / "big-Q4_K_M.gguf"):
        repository.files[path.name] = home.hub.add("scratch/one", x__gguf=path).files["x.gguf"]
    del home.hub.repositories["scratch/one"]
    return repository


def test_a_gated_repository_says_where_its_terms_are(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    home.hub.repositories["user/tiny"].gated = True
    code, _, err = run("models", "pull", "hf:user/tiny", "-y")
    assert code == 3
    assert f"is gated: accept its licence at {home.hub.endpoint}/user/tiny" in err
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}_of_somebody_else")
    code, _, err = run("models", "pull", "hf:user/tiny", "-y")
    assert code == 3
    assert "has no access to it yet" in err
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert run("models", "pull", "hf:user/tiny", "-y").code == 0


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("hf:user/nothing", "There is no repository user/nothing"),
        ("hf:user/tiny:Q5_0", "There is no Q5_0 in user/tiny. Did you mean Q8_0?"),
        ("hf:user/tiny:no.gguf", "There is no file no.gguf in user/tiny"),
        ("hf:user", "write hf:user/repo"),
        ("user/tiny", "For a model of the hub, write hf:user/tiny"),
        ("pear", "Did you mean pair?"),
        ("/nowhere.gguf", "There is no file /nowhere.gguf"),
    ],
)
def test_what_is_not_there_is_a_sentence(home: Household, reference: str, words: str) -> None:
    code, out, err = run("models", "pull", reference, "-y")
    assert (code, out) == (3, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_hub_that_can_not_be_reached_is_a_sentence(home: Household) -> None:
    home.hub.stop()
    code, out, err = run("models", "pull", "pair", "-y")
    assert (code, out) == (3, "")
    assert "can't be reached" in err


def test_a_file_that_is_not_what_the_catalogue_pins_is_not_downloaded(home: Household) -> None:
    home.catalogue('[x]\ntarget = { repo = "user/tiny", file = "tiny-Q4_K_M.gguf", size = 5 }\n')
    code, _, err = run("models", "pull", "x", "-y")
    assert code == 3
    assert "bytes instead of 5. Nothing was downloaded" in err
    assert blobs(home) == []


def test_a_full_disk_is_said_before_the_question(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "free_bytes", lambda _path: download.SPARE_BYTES)
    code, out, err = run("models", "pull", "pair", typed=b"y\n")
    assert (code, out) == (4, "")
    assert "The download needs 286 kB in" in err
    assert "[y/N]" not in err
    assert blobs(home) == []


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 4.5 MiB for a model."""
    little = Memory("CPU", 1 << 30, 9 << 19, 0, 0, False)
    monkeypatch.setattr(check, "host", lambda: little)
    monkeypatch.setattr(gate, "host", lambda: little)


@pytest.mark.usefixtures("cramped")
def test_what_does_not_fit_is_not_downloaded_unless_forced(home: Household) -> None:
    code, out, err = run("models", "pull", "pair", "-y")
    assert (code, out) == (4, "")
    assert "pair with a context of 512 does not fit: it needs" in err
    assert "What would do: " in err
    assert "(frees " in err
    assert "Nothing was downloaded (--force does it all the same)." in err
    assert blobs(home) == asked_of_files(home) == []
    code, out, err = run("models", "pull", "pair", "-y", "--force")
    assert (code, len(blobs(home))) == (0, 2)
    assert "does not fit" in err
    code, out, err = run("-m", "pair", "-n", "3", "hello")
    assert (code, out) == (4, "")
    assert "(or --force, to load it all the same)" in err
    code, out, err = run("-m", "pair", "-n", "3", "--force", "hello")
    assert code == 0, err
    assert out


def test_ctrl_c_in_a_download_keeps_what_arrived_and_the_next_run_goes_on(home: Household) -> None:
    large = home.model("large.gguf", padded_to=24 << 20)
    home.hub.add("user/large", **{"large__gguf": large})
    home.hub.bytes_per_s = 12e6
    code, out, err = run("models", "pull", "hf:user/large:large.gguf", typed=b"y\n", stderr=CtrlC("MB/s"))
    assert (code, out) == (130, "")
    assert err.endswith("specchat: The download was stopped. What has arrived is kept.\x1b[0m\n")
    assert "cut the connection" not in err
    held = next(home.cache.glob("models--user--large/blobs/*")).stat().st_size
    assert 1 << 20 < held < 23 << 20
    home.hub.bytes_per_s = None
    code, out, err = run("models", "pull", "hf:user/large:large.gguf", typed=b"y\n")
    assert code == 0, err
    assert f"of which {size(held)} are here already," in err
    assert [request.range for request in home.hub.asked("blob")][-1] == f"bytes={held}-"
    assert Path(out.strip()).read_bytes() == large.read_bytes()


def test_a_killed_download_goes_on_where_it_stopped(home: Household) -> None:
    large = home.model("large.gguf", padded_to=24 << 20)
    home.hub.add("user/large", **{"large__gguf": large})
    home.hub.bytes_per_s = 30e6
    process = subprocess.Popen(
        [sys.executable, "-m", "specchat", "models", "pull", "hf:user/large:large.gguf", "-y"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ},
    )
    try:
        held = waited_for(home, 0.6 * large.stat().st_size)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    home.hub.bytes_per_s, before = None, home.hub.sent
    code, out, err = run("models", "pull", "hf:user/large:large.gguf", "-y")
    assert code == 0, err
    assert home.hub.sent - before <= 0.45 * large.stat().st_size
    assert Path(out.strip()).read_bytes() == large.read_bytes()
    assert held >= 0.6 * large.stat().st_size
    home.hub.stop()
    home.hub.requests.clear()
    assert run("-m", "hf:user/large:large.gguf", "-n", "3", "hello").code == 0
    assert home.hub.asked() == []


def waited_for(home: Household, size: float) -> int:
    """Bytes on the disk, once they are so many."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in home.cache.glob("models--user--large/blobs/*.incomplete"):
            if (held := path.stat().st_size) >= size:
                return held
        time.sleep(0.02)
    raise AssertionError("the download never came so far")


@pytest.mark.parametrize("columns", [30, 60, 200])
def test_progress_keeps_to_one_line(home: Household, columns: int) -> None:
    large = home.model("large.gguf", padded_to=6 << 20)
    home.hub.add("user/large", **{"large__gguf": large})
    home.hub.bytes_per_s = 20e6
    code, _, err = run("models", "pull", "hf:user/large:large.gguf", typed=b"y\n", columns=columns)
    assert code == 0
    shown = [line.split("\x1b[0m")[0] for line in err.split("\r\x1b[K\x1b[2m")[1:]]
    assert any("%" in line and "of 6.3 MB" in line for line in shown)
    assert max(map(len, shown)) < columns


def test_sizes_are_written_as_disks_count() -> None:
    assert [size(n) for n in (None, 0, 999_400, 1_000_000, 639_446_688, 9_001_752_960)] == [
        "size unknown", "0 B", "999 kB", "1.0 MB", "639 MB", "9.0 GB",
    ]  # fmt: skip
    assert (obtain._duration(59.4), obtain._duration(75), obtain._duration(7260)) == ("0:59", "1:15", "2 h 1 min")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 16 MiB for a model."""
    little = Memory("CPU", 1 << 30, 16 << 20, 0, 0, False)
    monkeypatch.setattr(check, "host", lambda: little)
    monkeypatch.setattr(gate, "host", lambda: little)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("asked", [[], ["-k", "0"], ["-d", "hf:user/draft:Q8_0"], ["--method", "suffix"]])
def test_the_command_that_a_refusal_proposes_works(home: Household, asked: list[str]) -> None:
    large = ["--ctx", "100000", *asked]
    code, _, err = run("-m", "pair", *large, "-y", "hello")
    assert code == 4, err
    found = re.search(r"Try: specchat (.*)\. Nothing was downloaded", err)
    assert found, err
    assert set(asked[1:]) < set(shlex.split(found[1])), "what was asked for stays"
    code, _, err = run(*shlex.split(found[1]), "-y", "-n", "2", "hello")
    assert code == 0, err


@pytest.mark.parametrize("asked", [["-d", "none"], ["-k", "0"], ["--method", "none"], ["--method", "suffix"]])
def test_a_draft_that_is_not_wanted_is_neither_weighed_nor_fetched(home: Household, asked: list[str]) -> None:
    code, _, err = run("-m", "pair", *asked, "-y", "-n", "2", "hello")
    assert code == 0, err
    assert "draft-Q8_0.gguf" not in err
    assert len(blobs(home)) == 1
    assert not any("draft" in request.path for request in home.hub.requests)


def test_a_draft_model_that_is_named_comes_without_its_own(home: Household) -> None:
    home.catalogue(
        '[large]\ntarget = { repo = "user/tiny", quant = "Q8_0" }\n[small]\n'
        'target = { repo = "user/tiny", quant = "Q4_K_M" }\ndraft = { repo = "user/draft", file = "draft-Q8_0.gguf" }\n'
    )
    code, _, err = run("-m", "large", "-d", "small", "-y", "-n", "2", "hello")
    assert code == 0, err
    assert err.count(" fits: it needs") == 1
    assert len(blobs(home)) == 2
    assert not any("draft" in request.path for request in home.hub.requests)


def test_a_draft_model_that_the_method_needs_is_fetched(home: Household) -> None:
    assert run("models", "pull", "hf:user/tiny:Q4_K_M", "-y").code == 0
    code, _, err = run("-m", "pair", "--method", "draft", "-n", "2", "hello")
    assert code == 3
    assert "The draft model of A pair is not on this machine. Get it with: specchat models pull pair -y" in err
    code, _, err = run("-m", "pair", "--method", "draft", "-y", "-n", "2", "hello")
    assert code == 0, err
    assert len(blobs(home)) == 2


def test_a_setting_that_is_out_of_range_is_said_before_the_question(home: Household) -> None:
    assert run("-m", "pair", "--ctx", "3", "-y", "hello").code == 2
    assert home.hub.asked() == []


class Terminated(CtrlC):
    number = signal.SIGTERM


def test_a_question_that_the_system_ends_during_the_download_says_so(home: Household) -> None:
    large = home.model("large.gguf", padded_to=6 << 20)
    home.hub.add("user/large", **{"large__gguf": large})
    home.hub.bytes_per_s = 5e6
    code, _, _ = run("-m", "hf:user/large", "hello", typed=b"y\n", columns=200, stderr=Terminated("%"))
    assert code == 143
