"""The bytes of a remote file: one request, and where in the file its answer begins."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from specchat.catalogue.hub import DEFAULT_ENDPOINT, IDENTITY, Hub, RemoteContent, endpoint
from specchat.catalogue.hub_errors import HubError, Problem, Subject, explain, not_a_hub, offline

if TYPE_CHECKING:
    import httpx2

_TICK_S: Final = 0.1
_GONE: Final = frozenset({400, 401, 403, 404, 410})
"""What storage hosts answer to an address that has expired."""
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Body:
    """The answer to a request for the bytes from `first` on."""

    def __init__(self, response: httpx2.Response, remote: RemoteContent, first: int) -> None:
        self.host = response.url.host
        self.skipped = first - _start(response, remote, first)
        """Bytes before `first` that the server sends all the same, since it ignores ranges."""
        self._response = response

    def chunks(self) -> Iterator[tuple[memoryview, int]]:
        """What arrives: bytes from `first` on (maybe none), and how many came over the network for them."""
        skip = self.skipped
        for received in self._response.iter_raw():
            chunk = memoryview(received)[skip:]
            skip -= len(received) - len(chunk)
            yield chunk, len(received)


@contextmanager
def open_body(hub: Hub, remote: RemoteContent, first: int, last: int | None = None) -> Iterator[Body]:
    """Ask for bytes `first` to `last` (inclusive; None: to the end).

    The user's token goes to the hub alone, never to a storage host. Raises HubError, while reading too; its problem
    is ADDRESS where the address has expired. When the user cancels, the connection is cut.
    """
    from huggingface_hub import get_session
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    subject = Subject(endpoint(), remote.source.repo, remote.source.revision, remote.source.file)
    if hub.is_offline:
        raise offline(subject)
    timeout = httpx.Timeout(hub.patience.stall_s, connect=hub.patience.connect_s)
    headers = _headers(remote.url)
    headers["range"] = f"bytes={first}-{'' if last is None else last}"
    # A compressed body could not be continued in the middle.
    headers["accept-encoding"] = "identity"
    try:
        with get_session().stream("GET", remote.url, headers=headers, timeout=timeout) as response:
            _check_status(response, subject)
            with _cut_on_cancel(hub, response):
                yield Body(response, remote, first)
    except Exception as error:
        # What the reader of the body raised comes out of this as it was.
        raise explain(error, subject) from error


def _headers(url: str) -> dict[str, str]:
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    # None lets the library look for the user's token; False forbids it.
    return dict(build_hf_headers(token=None if _is_hub(url) else False, **IDENTITY))


def _is_hub(url: str) -> bool:
    """Whether `url` lies on the hub itself, or on the real one behind a mirror: the only places for a token."""
    return _origin(url) in (_origin(endpoint()), _origin(DEFAULT_ENDPOINT))


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _check_status(response: httpx2.Response, subject: Subject) -> None:
    from huggingface_hub import hf_raise_for_status

    if response.status_code in (200, 206):
        return
    host = response.url.host
    if response.status_code == 416:
        raise HubError(f"{host} has fewer bytes of {subject.file} than the hub says.", Problem.CONTENT)
    if response.status_code in _GONE and not _is_hub(str(response.url)):
        raise HubError(
            f"{host} refuses the address of {subject.file} that the hub has given. Try again.", Problem.ADDRESS
        )
    hf_raise_for_status(response)
    raise not_a_hub(subject)


def _start(response: httpx2.Response, remote: RemoteContent, first: int) -> int:
    """Where in the file the body begins; raises HubError where it is not the file that the hub describes."""
    headers = response.headers
    span = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    if response.status_code == 206 and span is not None:
        start, announced = int(span[1]), span[3]
    else:
        start, announced = 0, headers.get("content-length", "*")
    encoded = headers.get("content-encoding", "identity").lower() != "identity"
    if encoded or start > first or announced not in ("*", str(remote.size)):
        raise HubError(
            f"{response.url.host} announces {announced} bytes of {remote.source.file}, but the hub says it has "
            f"{remote.size}. Nothing of it was taken; try again later.",
            Problem.CONTENT,
        )
    return start


@contextmanager
def _cut_on_cancel(hub: Hub, response: httpx2.Response) -> Iterator[None]:
    """Shut the socket when the user cancels, since a silent one would only be noticed when it times out."""
    stream = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if not isinstance(connection, socket.socket):
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_TICK_S):
            if hub.cancelled():
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                return

    watcher = threading.Thread(target=watch, name="cancel watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
