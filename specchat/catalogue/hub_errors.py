"""What can go wrong with the hub, each as its own sentence."""

from __future__ import annotations

import email.utils
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from specchat.catalogue.errors import ModelUnavailable

_LOG_IN: Final = "log in with `hf auth login` or set HF_TOKEN"
_RETRY_STATUS: Final = frozenset({408, 500, 502, 503, 504})


class Problem(Enum):
    """The kinds of failures, for a program that wants to tell them apart."""

    OFFLINE = "offline"
    GATED = "gated"
    TOKEN = "token"
    FORBIDDEN = "forbidden"
    NO_REPOSITORY = "no repository"
    NO_REVISION = "no revision"
    NO_FILE = "no file"
    TOO_MANY_REQUESTS = "too many requests"
    HUB_FAULT = "hub fault"
    NAME_LOOKUP = "name lookup"
    ENCRYPTION = "encryption"
    UNREACHABLE = "unreachable"
    STALLED = "stalled"
    CUT = "cut"
    NOT_A_HUB = "not a hub"
    PIN = "pin"
    CONTENT = "content"
    ADDRESS = "address"


NETWORK_LOST: Final = frozenset({Problem.NAME_LOOKUP, Problem.UNREACHABLE})
"""Failures that mean a wrong setup at the first request, and a lost connection later."""


class HubError(ModelUnavailable):
    """A file of the hub that can't be had; the message is a sentence for the user."""

    def __init__(self, sentence: str, problem: Problem, *, again: bool = False, wait_s: float | None = None) -> None:
        super().__init__(sentence)
        self.problem = problem
        self.again = again
        """Whether the same request may succeed a little later."""
        self.wait_s = wait_s
        """Seconds that the server asks to wait before; None where it doesn't say."""


class Cancelled(Exception):
    """The user stopped a download; what has arrived is kept."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What was asked for, so that a sentence can name it."""

    endpoint: str
    repo: str
    revision: str | None = None
    file: str | None = None

    @property
    def page(self) -> str:
        """Where a person reads about the repository and accepts its licence."""
        return f"{self.endpoint}/{self.repo}"

    @property
    def at(self) -> str:
        """The revision as a phrase; nothing for the main branch."""
        return f" at revision {self.revision}" if self.revision else ""


def offline(subject: Subject) -> HubError:
    """The error for a request that offline mode forbids."""
    what = f"{subject.file} of {subject.repo}" if subject.file else subject.repo
    return HubError(
        f"{what} is not in the cache{subject.at}, and offline mode (--offline or HF_HUB_OFFLINE) forbids asking the "
        "hub. Leave offline mode to download it.",
        Problem.OFFLINE,
    )


def explain(error: Exception, subject: Subject) -> HubError:
    """The sentence for whatever a request to the hub or to its storage host raised.

    Errors that are no failure of a request are raised again as they are.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    if isinstance(error, HubError):
        return error
    if isinstance(error, errors.OfflineModeIsEnabled):
        return offline(subject)
    if isinstance(error, errors.HfHubHTTPError):
        return _answered(error, subject)
    if isinstance(error, httpx.TransportError | httpx.StreamError):
        return _unanswered(error, subject)
    if isinstance(error, httpx.InvalidURL | httpx.TooManyRedirects | errors.FileMetadataError):
        return not_a_hub(subject)
    if isinstance(error, errors.HFValidationError):
        return HubError(
            f"{subject.repo!r} is no name of a repository; it should look like user/name.", Problem.NO_REPOSITORY
        )
    if isinstance(error, ImportError) or (isinstance(error, ValueError) and "scheme" in str(error)):
        # httpx speaks to SOCKS proxies only with a further package, and to no other kinds.
        return HubError(
            f"The proxy that the environment names can't be used ({_one_line(error)}). Set HTTPS_PROXY to one that "
            "speaks HTTP, or unset ALL_PROXY.",
            Problem.UNREACHABLE,
        )
    # A page of a proxy or login portal instead of the hub's JSON.
    if isinstance(error, ValueError | TypeError | KeyError) and subject.file is None:
        return not_a_hub(subject)
    raise error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def not_a_hub(subject: Subject) -> HubError:
    """The error for an answer that lacks what every hub sends."""
    return HubError(
        f"{subject.endpoint} doesn't answer as a Hugging Face hub does. Check HF_ENDPOINT, and whether a proxy or a "
        "login page of the network stands in between.",
        Problem.NOT_A_HUB,
    )


def _answered(error: Any, subject: Subject) -> HubError:
    from huggingface_hub import errors

    status, headers = error.response.status_code, error.response.headers
    if isinstance(error, errors.GatedRepoError):
        return _gated(status, subject)
    if isinstance(error, errors.RevisionNotFoundError):
        return HubError(f"{subject.repo} has no revision {subject.revision or 'main'}.", Problem.NO_REVISION)
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return HubError(
            f"{subject.repo} has no file {subject.file}{subject.at}. See {subject.page}/tree/"
            f"{subject.revision or 'main'} for what it has.",
            Problem.NO_FILE,
        )
    if isinstance(error, errors.DisabledRepoError):
        return HubError(f"The hub has disabled the repository {subject.repo}: {subject.page}", Problem.FORBIDDEN)
    # The hub names an unusable token in this header only; the status alone would read as a missing repository.
    if status == 401 and "credentials" in headers.get("x-error-message", "").lower():
        return HubError(
            "The hub refuses your token: it is mistyped, expired or revoked. Make a new one at "
            f"{subject.endpoint}/settings/tokens and {_LOG_IN}.",
            Problem.TOKEN,
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return _no_repository(subject)
    return _by_status(status, headers, subject)


def _gated(status: int, subject: Subject) -> HubError:
    if status == 403:
        sentence = (
            f"{subject.repo} is gated, and your account has no access to it yet: accept its licence at {subject.page} "
            "(some authors grant access by hand), then try again."
        )
    else:
        sentence = f"{subject.repo} is gated: accept its licence at {subject.page}, then {_LOG_IN}."
    return HubError(sentence, Problem.GATED)


def _no_repository(subject: Subject) -> HubError:
    return HubError(
        f"There is no repository {subject.repo} at {subject.endpoint}, or it is private. Check the name; for a "
        f"private one {_LOG_IN}.",
        Problem.NO_REPOSITORY,
    )


def _by_status(status: int, headers: Mapping[str, str], subject: Subject) -> HubError:
    if status == 401:
        return _no_repository(subject)
    if status == 403:
        return HubError(
            f"The hub doesn't let your token read {subject.repo}. Give it read access to this repository at "
            f"{subject.endpoint}/settings/tokens, or {_LOG_IN} with another one.",
            Problem.FORBIDDEN,
        )
    if status == 404:
        return not_a_hub(subject)
    if status == 429:
        wait = retry_after(headers)
        when = f"in {wait:.0f} seconds" if wait is not None else "later"
        return HubError(
            f"The hub has had too many requests from here (429). Try again {when}; with a token it allows more.",
            Problem.TOO_MANY_REQUESTS,
            again=True,
            wait_s=wait,
        )
    return HubError(
        f"The hub at {subject.endpoint} has a fault of its own (HTTP status {status}). Try again later.",
        Problem.HUB_FAULT,
        again=status in _RETRY_STATUS,
        wait_s=retry_after(headers),
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait, from its rate limit or `Retry-After`; None where it doesn't say."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    limit = parse_ratelimit_headers(headers)
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    value = headers.get("retry-after", "").strip()
    if value.isdigit():
        return float(value)
    moment = email.utils.parsedate_tz(value)
    # A date is the only place where the machine's clock counts; a wrong one costs a wait, and waits are bounded.
    return max(0.0, email.utils.mktime_tz(moment) - time.time()) if moment else None


def _unanswered(error: Exception, subject: Subject) -> HubError:
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    host = _host(error, subject)
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return HubError(
            f"The name {host} can't be looked up (DNS). Check the network connection"
            + (" and HF_ENDPOINT." if os.environ.get("HF_ENDPOINT") else "."),
            Problem.NAME_LOOKUP,
        )
    encryption = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if encryption is not None:
        return HubError(_encryption(host, encryption), Problem.ENCRYPTION)
    if isinstance(error, httpx.ProxyError):
        return HubError(f"The proxy between here and {host} refuses the connection: {error}.", Problem.UNREACHABLE)
    if isinstance(error, httpx.UnsupportedProtocol):
        return not_a_hub(subject)
    if isinstance(error, httpx.TimeoutException):
        return HubError(
            f"The connection to {host} has stalled: nothing came for a while. Try again; what has arrived is kept.",
            Problem.STALLED,
            again=True,
        )
    if isinstance(error, httpx.ConnectError):
        return HubError(f"{host} can't be reached: {error}. Check the network connection.", Problem.UNREACHABLE)
    return HubError(f"{host} has cut the connection. Try again; what has arrived is kept.", Problem.CUT, again=True)


def _encryption(host: str, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"The certificate of {host} can't be trusted ({error.verify_message}). Behind a company's proxy, put its "
            "certificate into the system's store or name it in SSL_CERT_FILE; also check the clock."
        )
    return f"No encrypted connection (TLS) to {host} comes about ({error.reason or error}). Check HF_ENDPOINT."


def _host(error: Any, subject: Subject) -> str:
    try:
        return str(error.request.url.netloc.decode("ascii"))
    except (AttributeError, RuntimeError):
        return urlsplit(subject.endpoint).netloc or subject.endpoint


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
