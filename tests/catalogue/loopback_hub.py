"""A small real hub on this machine: repositories on one port, the storage host with their contents on another.

It answers as the real one does (headers, redirects, error codes, ranged requests), counts what it is asked, and
misbehaves on demand. By hand, for a program run with HF_ENDPOINT:

    python -m tests.catalogue.loopback_hub user/repo=FILE [user/repo=FILE...]
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

MAIN_COMMIT = "c0ffee" + "0" * 34
TOKEN = "hf_loopback"
_STEP = 64 << 10


@dataclass(frozen=True)
class Content:
    """What a file holds: bytes, or a file on the disk."""

    data: bytes | Path

    @cached_property
    def size(self) -> int:
        return self.data.stat().st_size if isinstance(self.data, Path) else len(self.data)

    @cached_property
    def sha256(self) -> str:
        if isinstance(self.data, bytes):
            return hashlib.sha256(self.data).hexdigest()
        with self.data.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def git_id(self) -> str:
        assert isinstance(self.data, bytes)
        return hashlib.sha1(b"blob %d\0" % self.size + self.data).hexdigest()

    def read(self, first: int, count: int) -> bytes:
        if isinstance(self.data, bytes):
            return self.data[first : first + count]
        with self.data.open("rb") as file:
            file.seek(first)
            return file.read(count)


@dataclass
class Repository:
    """One repository; every revision in `commits` has the same files."""

    files: dict[str, Content]
    commits: dict[str, str] = field(default_factory=lambda: {"main": MAIN_COMMIT})
    gated: bool = False
    private: bool = False
    license: str = "apache-2.0"
    small: frozenset[str] = frozenset()
    """Files that lie in git itself and are named by git's id."""


@dataclass
class Request:
    """One request that was answered."""

    host: str
    method: str
    path: str
    headers: Mapping[str, str]
    status: int = 0
    sent: int = 0
    """Bytes of the body."""

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass(frozen=True)
class Fault:
    """How one answer of the storage host, or one of the hub, goes wrong."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Close the connection after so many bytes of the body."""
    drip_s: float | None = None
    """Send a byte, pause so long, and so on."""
    silent_after: int | None = None
    """Send nothing more after so many bytes, but keep the connection."""
    corrupt_at: int | None = None
    """Flip the byte of the file at this place."""
    announce: int = 0
    """Added to the length that is announced, and, where positive, zeros to the body."""
    whole: bool = False
    """Ignore the range, as some servers do."""
    unannounced: int = 0
    """Send so many bytes more than there are, without announcing any length."""


class LoopbackHub:
    """Both servers, from `with` on."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[Request] = []
        self.hub_faults: deque[Fault] = deque()
        """Used up by the hub's next answers, one each."""
        self.blob_faults: deque[Fault] = deque()
        """Likewise of the storage host."""
        self.bytes_per_s: float | None = None
        """Of every body that the storage host sends."""
        self.address_bytes: int | None = None
        """After so many bytes of body an address has expired."""
        self.addresses: dict[str, int] = {}
        self._numbers = itertools.count()
        self.lock = threading.Lock()
        self._servers = [self._server(_HubHandler), self._server(_BlobHandler)]

    def _server(self, handler: type[_Handler]) -> ThreadingHTTPServer:
        bound = type(handler.__name__, (handler,), {"world": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), bound)
        server.daemon_threads = True
        return server

    def add(self, repo: str, **files: bytes | Path) -> Repository:
        """A repository with these files; in names, write `__` for the dot."""
        contents = {name.replace("__", "."): Content(data) for name, data in files.items()}
        self.repositories[repo] = Repository(contents)
        return self.repositories[repo]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._servers[0].server_port}"

    @property
    def blob_endpoint(self) -> str:
        # Another name for the same machine: to a client it is another host.
        return f"http://localhost:{self._servers[1].server_port}"

    def address(self, sha256: str) -> str:
        """A fresh address of a content."""
        key = str(next(self._numbers))
        self.addresses[key] = self.address_bytes if self.address_bytes is not None else sys.maxsize
        return f"{self.blob_endpoint}/{sha256}?key={key}"

    def expire_addresses(self) -> None:
        """Refuse all addresses given so far."""
        with self.lock:
            self.addresses.clear()

    def asked(self, host: str | None = None, method: str | None = None) -> list[Request]:
        """Requests so far, of one host or method; without what huggingface_hub asks for its own statistics."""
        return [
            request
            for request in list(self.requests)
            if host in (None, request.host)
            and method in (None, request.method)
            and "agent-harnesses" not in request.path
        ]

    @property
    def sent(self) -> int:
        """Bytes of bodies that the storage host has sent."""
        return sum(request.sent for request in list(self.requests) if request.host == "blob")

    def find(self, sha256: str) -> Content | None:
        contents = (content for repository in self.repositories.values() for content in repository.files.values())
        return next((content for content in contents if content.sha256 == sha256), None)

    def __enter__(self) -> LoopbackHub:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    world: LoopbackHub
    host = ""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *arguments: Any) -> None:
        return

    def note(self) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.host, self.command, self.path, headers)
        self.world.requests.append(request)
        return request

    def answer(self, request: Request, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        request.status = status
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _HubHandler(_Handler):
    host = "hub"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        request = self.note()
        if "agent-harnesses" in self.path:
            self.answer(request, 404, {})
            return
        if self.world.hub_faults:
            fault = self.world.hub_faults.popleft()
            if fault.drip_s is not None:
                time.sleep(fault.drip_s)
                self.close_connection = True
                return
            if fault.status is not None:
                self.answer(request, fault.status, fault.headers, b"{}")
                return
        parts = urlsplit(self.path)
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/([^/]+))?", parts.path):
            self._model(request, unquote(match[1]), unquote(match[2] or "main"), tree="/tree/" in parts.path)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", parts.path):
            self._resolve(request, unquote(match[1]), unquote(match[2]), unquote(match[3]))
        else:
            self.answer(request, 404, {})

    def _refused(self, request: Request, repo: str) -> Repository | None:
        """The repository, or None after a refusal was sent."""
        repository = self.world.repositories.get(repo)
        authorization = self.headers.get("authorization")
        known = authorization == f"Bearer {TOKEN}"
        if authorization is not None and not authorization.startswith(f"Bearer {TOKEN}"):
            self._error(request, 401, None, "Invalid credentials in Authorization header")
        elif repository is None or (repository.private and not known):
            self._error(request, 404 if known else 401, "RepoNotFound", "Repository not found")
        elif repository.gated and "/resolve/" in self.path and authorization is None:
            self._error(request, 401, "GatedRepo", f"Access to model {repo} is restricted.")
        elif repository.gated and "/resolve/" in self.path and not known:
            self._error(request, 403, "GatedRepo", f"Access to model {repo} is restricted.")
        else:
            return repository
        return None

    def _error(self, request: Request, status: int, code: str | None, message: str) -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self.answer(request, status, headers, json.dumps({"error": message}).encode())

    def _model(self, request: Request, repo: str, revision: str, *, tree: bool) -> None:
        repository = self._refused(request, repo)
        if repository is None:
            return
        commit = _commit(repository, revision)
        if commit is None:
            self._error(request, 404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        files = [
            {"rfilename": name, "path": name, "type": "file", "size": content.size, "blobId": "0" * 40}
            | ({} if name in repository.small else {"lfs": _lfs(content)})
            for name, content in repository.files.items()
        ]
        info = {
            "id": repo,
            "sha": commit,
            "private": repository.private,
            "gated": "auto" if repository.gated else False,
            "cardData": {"license": repository.license},
            "siblings": files,
        }
        body = json.dumps(files if tree else info).encode()
        self.answer(request, 200, {"Content-Type": "application/json"}, body)

    def _resolve(self, request: Request, repo: str, revision: str, file: str) -> None:
        repository = self._refused(request, repo)
        if repository is None:
            return
        commit = _commit(repository, revision)
        if commit is None:
            self._error(request, 404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        content = repository.files.get(file)
        if content is None:
            self.answer(request, 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b"")
        elif file in repository.small:
            headers = {"X-Repo-Commit": commit, "ETag": f'"{content.git_id}"', "Content-Length": str(content.size)}
            self.answer(request, 200, headers, content.read(0, content.size))
        else:
            headers = {
                "X-Repo-Commit": commit,
                "X-Linked-Etag": f'"{content.sha256}"',
                "X-Linked-Size": str(content.size),
                "ETag": f'"{hashlib.md5(content.sha256.encode()).hexdigest()}"',
                "Location": self.world.address(content.sha256),
            }
            self.answer(request, 302, headers)


def _commit(repository: Repository, revision: str) -> str | None:
    known = repository.commits.values()
    return repository.commits.get(revision) or (revision if revision in known else None)


def _lfs(content: Content) -> dict[str, Any]:
    return {"sha256": content.sha256, "size": content.size, "pointerSize": 135}


class _BlobHandler(_Handler):
    host = "blob"

    def do_GET(self) -> None:
        request = self.note()
        parts = urlsplit(self.path)
        key = parse_qs(parts.query).get("key", [""])[0]
        with self.world.lock:
            budget = self.world.addresses.get(key, 0)
        content = self.world.find(parts.path.strip("/"))
        fault = self.world.blob_faults.popleft() if self.world.blob_faults else Fault()
        if content is None or budget <= 0:
            self.answer(request, 403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        elif fault.status is not None:
            self.answer(request, fault.status, fault.headers)
        else:
            self._body(request, content, fault, budget)
            with self.world.lock:
                if key in self.world.addresses:
                    self.world.addresses[key] -= request.sent

    def _body(self, request: Request, content: Content, fault: Fault, budget: int) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.range or "")
        first = int(asked[1]) if asked and not fault.whole else 0
        last = min(int(asked[2]) if asked and asked[2] and not fault.whole else content.size, content.size - 1)
        if first >= content.size:
            self.answer(request, 416, {"Content-Range": f"bytes */{content.size}"})
            return
        total = content.size + fault.announce
        length = last + 1 - first + fault.announce
        request.status = 206 if asked and not fault.whole else 200
        self.send_response(request.status)
        if request.status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        self.send_header("ETag", '"not-the-sha256"')
        if fault.unannounced:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self._send(request, content, fault, first, min(length + fault.unannounced, budget))
        if request.sent < length:
            self.close_connection = True

    def _send(self, request: Request, content: Content, fault: Fault, first: int, length: int) -> None:
        if isinstance(content.data, Path) and fault == Fault() and self.world.bytes_per_s is None:
            with content.data.open("rb") as file:
                request.sent = self.connection.sendfile(file, first, length)
            return
        start = time.monotonic()
        try:
            while request.sent < length:
                if fault.silent_after is not None and request.sent >= fault.silent_after:
                    time.sleep(30)
                    return
                self._send_some(request, content, fault, first, length)
                if fault.cut_after is not None and request.sent >= fault.cut_after:
                    return
                if self.world.bytes_per_s:
                    time.sleep(max(0.0, request.sent / self.world.bytes_per_s - (time.monotonic() - start)))
        except OSError:
            # The client has gone; what was sent is counted.
            self.close_connection = True

    def _send_some(self, request: Request, content: Content, fault: Fault, first: int, length: int) -> None:
        ends = [length, request.sent + (1 if fault.drip_s else _STEP)]
        ends += [place for place in (fault.cut_after, fault.silent_after) if place is not None]
        count = min(ends) - request.sent
        place = first + request.sent
        data = bytearray(content.read(place, count).ljust(count, b"\0"))
        if fault.corrupt_at is not None and place <= fault.corrupt_at < place + count:
            data[fault.corrupt_at - place] ^= 1
        self.wfile.write(data)
        request.sent += count
        if fault.drip_s:
            time.sleep(fault.drip_s)


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _main(arguments: list[str]) -> None:
    with LoopbackHub() as hub:
        for argument in arguments:
            repo, _, path = argument.partition("=")
            repository = hub.repositories.setdefault(repo, Repository({}))
            repository.files[Path(path).name] = Content(Path(path))
        print(f"HF_ENDPOINT={hub.endpoint}", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    _main(sys.argv[1:])
