"""How messages travel: a length and a pickle.

Pickle, because both ends are this program on this machine, joined by a socket that no one else can open, and because it
keeps tuples, numbers as keys and unpaired surrogates as they are. Nothing but our own messages is ever unpickled.
"""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from asyncio import StreamReader
from dataclasses import fields
from socket import socket
from typing import Any, get_args

from specchat.worker import messages

_LENGTH = struct.Struct(">I")
_MESSAGES: dict[str, type] = {
    kind.__name__: kind
    for kind in (*get_args(messages.Request), *get_args(messages.Event), messages.Span, messages.Figures)
}


def _fingerprint() -> bytes:
    shape = [(name, [(field.name, field.type) for field in fields(kind)]) for name, kind in sorted(_MESSAGES.items())]
    return b"specchat" + struct.pack(">I", zlib.crc32(repr(shape).encode()))


GREETING = _fingerprint()
"""What a child says first: which messages it knows. Another one is from another version of this program."""


class _OurMessages(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == messages.__name__ and name in _MESSAGES:
            return _MESSAGES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is no message.")


def frame(message: messages.Request | messages.Event) -> bytes:
    """The bytes that carry `message`."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def _message(body: bytes) -> Any:
    return _OurMessages(io.BytesIO(body)).load()


def receive(connection: socket) -> Any:
    """Wait for the next message; None once the other end is gone."""
    try:
        header = _exactly(connection, _LENGTH.size)
        body = _exactly(connection, _LENGTH.unpack(header)[0]) if header is not None else None
    except OSError:
        return None
    return None if body is None else _message(body)


def _exactly(connection: socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


async def next_message(reader: StreamReader) -> Any:
    """The next message; raises IncompleteReadError or OSError once the other end is gone."""
    (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return _message(await reader.readexactly(size))
