"""Whatever goes wrong with the hub is told in a sentence that says what happened and what to do."""

from __future__ import annotations

import contextlib
import email.utils
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specchat.catalogue.cache import cache_root
from specchat.catalogue.download import fetch, plan
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.hub import Hub
from specchat.catalogue.hub_errors import HubError, Problem
from specchat.catalogue.sources import HubFile
from tests.catalogue.loopback_hub import TOKEN, Fault, LoopbackHub, free_port

MakeHub = Callable[..., Hub]
SOURCE = HubFile("user/model", "model.gguf")


def refusal(source: HubFile, hub: Hub) -> HubError:
    with pytest.raises(HubError) as caught:
        plan([source], hub)
    assert isinstance(caught.value, ModelUnavailable), "the command must end with the exit code for a missing model"
    return caught.value


@pytest.fixture
def model(world: LoopbackHub) -> LoopbackHub:
    world.add("user/model", model__gguf=b"GGUF" * 100)
    return world


def test_a_gated_model_without_a_token_is_told_with_licence_and_login(model: LoopbackHub, hub: MakeHub) -> None:
    model.repositories["user/model"].gated = True
    error = refusal(SOURCE, hub())
    assert error.problem is Problem.GATED
    for part in (f"{model.endpoint}/user/model", "licence", "hf auth login", "HF_TOKEN"):
        assert part in str(error)


def test_a_gated_model_whose_licence_is_not_accepted_is_told_without_a_login(
    model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.repositories["user/model"].gated = True
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}_of_another")
    error = refusal(SOURCE, hub())
    assert error.problem is Problem.GATED
    assert "no access" in str(error)
    assert "hf auth login" not in str(error)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert plan([SOURCE], hub()).size == 400


def test_a_token_that_the_hub_refuses(model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_expired")
    error = refusal(SOURCE, hub())
    assert error.problem is Problem.TOKEN
    assert "token" in str(error)
    assert "hf_expired" not in str(error), "a token is a secret"


@pytest.mark.parametrize(
    ("source", "problem", "named"),
    [
        (HubFile("user/other", "model.gguf"), Problem.NO_REPOSITORY, "user/other"),
        (HubFile("user/model", "other.gguf"), Problem.NO_FILE, "other.gguf"),
        (HubFile("user/model", "model.gguf", "v2"), Problem.NO_REVISION, "v2"),
        (HubFile("user/model", "../../etc/passwd"), Problem.NO_FILE, "passwd"),
        (HubFile("user/../model", "model.gguf"), Problem.NO_REPOSITORY, "user/../model"),
        (HubFile("user/model", "model.gguf", "../main"), Problem.NO_REVISION, "../main"),
    ],
)
def test_what_does_not_exist_is_named(
    model: LoopbackHub, hub: MakeHub, source: HubFile, problem: Problem, named: str
) -> None:
    error = refusal(source, hub())
    assert error.problem is problem
    assert named in str(error)


def test_a_private_repository_reads_as_missing_or_private(model: LoopbackHub, hub: MakeHub) -> None:
    model.repositories["user/model"].private = True
    assert "private" in str(refusal(SOURCE, hub()))


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "1"}, {"RateLimit": '"resolvers";r=0;t=1', "RateLimit-Policy": '"fixed window";"api";q=9;w=300'}],
)
def test_after_too_many_requests_the_wait_is_as_long_as_asked_and_said(
    model: LoopbackHub, hub: MakeHub, said: list[str], headers: dict[str, str]
) -> None:
    model.hub_faults.append(Fault(status=429, headers=headers))
    start = time.monotonic()
    assert plan([SOURCE], hub()).size == 400
    assert 1.0 <= time.monotonic() - start < 5.0
    assert len(said) == 1
    assert "too many requests" in said[0]
    assert "Waiting 1 s" in said[0]


def test_a_wait_beyond_reason_is_told_instead(model: LoopbackHub, hub: MakeHub) -> None:
    later = email.utils.formatdate(time.time() + 3600, usegmt=True)
    for wait in ("7200", later):
        model.hub_faults.append(Fault(status=429, headers={"Retry-After": wait}))
        error = refusal(SOURCE, hub())
        assert error.problem is Problem.TOO_MANY_REQUESTS
        assert error.wait_s is not None
        assert f"in {error.wait_s:.0f} seconds" in str(error)
    assert len(model.asked()) == 2


def test_a_fault_of_the_hub_is_tried_again_and_then_told(model: LoopbackHub, hub: MakeHub, said: list[str]) -> None:
    model.hub_faults.append(Fault(status=503))
    assert plan([SOURCE], hub()).size == 400
    assert "503" in said[0]
    model.hub_faults.extend([Fault(status=500)] * 3)
    error = refusal(SOURCE, hub())
    assert error.problem is Problem.HUB_FAULT
    assert "500" in str(error)


def test_a_hub_that_does_not_answer(model: LoopbackHub, hub: MakeHub) -> None:
    model.hub_faults.extend([Fault(drip_s=0.8)] * 2)
    error = refusal(SOURCE, hub(tries=2, connect_s=0.4))
    assert error.problem is Problem.STALLED
    assert "stalled" in str(error)


@pytest.mark.parametrize(
    ("address", "problem", "words"),
    [
        ("http://no-such-host.invalid", Problem.NAME_LOOKUP, "DNS"),
        ("http://127.0.0.1:{closed}", Problem.UNREACHABLE, "can't be reached"),
        ("https://127.0.0.1:{port}", Problem.ENCRYPTION, "TLS"),
        ("huggingface.co", Problem.NOT_A_HUB, "HF_ENDPOINT"),
        ("http://127.0.0.1:{port}/elsewhere", Problem.NOT_A_HUB, "HF_ENDPOINT"),
    ],
)
def test_a_hub_that_is_not_there(
    model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch, address: str, problem: Problem, words: str
) -> None:
    port = model.endpoint.rsplit(":", 1)[1]
    monkeypatch.setenv("HF_ENDPOINT", address.format(port=port, closed=free_port()))
    error = refusal(SOURCE, hub())
    assert error.problem is problem
    assert words in str(error)


def test_a_certificate_that_nobody_signed(
    world: LoopbackHub, hub: MakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def shake_hands() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                pass

        thread = threading.Thread(target=shake_hands)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"https://localhost:{server.getsockname()[1]}")
        error = refusal(SOURCE, hub())
        thread.join()
    assert error.problem is Problem.ENCRYPTION
    assert "certificate" in str(error)
    assert "SSL_CERT_FILE" in str(error)


def test_offline_nothing_is_asked(model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(SOURCE, hub(offline=True))
    assert error.problem is Problem.OFFLINE
    assert "--offline" in str(error)
    with pytest.raises(HubError, match="offline"):
        hub(offline=True).listing("user/model")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert Hub().is_offline
    assert model.requests == []


def test_a_page_that_is_no_hub(model: LoopbackHub, hub: MakeHub) -> None:
    model.hub_faults.extend([Fault(status=200), Fault(status=200)])
    assert refusal(SOURCE, hub()).problem is Problem.NOT_A_HUB
    with pytest.raises(HubError, match="HF_ENDPOINT"):
        hub().listing("user/model")


def test_another_file_than_the_catalogue_pins_is_told_and_nothing_is_fetched(model: LoopbackHub, hub: MakeHub) -> None:
    for pinned in (HubFile("user/model", "model.gguf", size=401), HubFile("user/model", "model.gguf", sha256="0" * 64)):
        error = refusal(pinned, hub())
        assert error.problem is Problem.PIN
        assert "Nothing was downloaded and nothing deleted" in str(error)
    assert model.asked("blob") == []
    assert not cache_root().exists()


def test_a_storage_host_that_refuses_for_good(model: LoopbackHub, hub: MakeHub) -> None:
    wanted = plan([SOURCE], hub())
    model.blob_faults.extend([Fault(status=403)] * 3)
    with pytest.raises(HubError, match="refuses the address") as caught:
        fetch(wanted, hub())
    assert caught.value.problem is Problem.ADDRESS
    assert len(model.asked("hub", "HEAD")) == 3


def test_a_listing_tells_files_sizes_hashes_and_licence(model: LoopbackHub, hub: MakeHub) -> None:
    model.repositories["user/model"].gated = True
    listing = hub().listing("user/model")
    content = model.repositories["user/model"].files["model.gguf"]
    (file,) = listing.files
    assert (file.name, file.size, file.sha256) == ("model.gguf", 400, content.sha256)
    assert (listing.gated, listing.licence) == (True, "apache-2.0")
    assert len(model.asked()) == 1
