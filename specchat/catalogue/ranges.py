"""The beginning of a remote file, read without the rest: a header tells whether a model fits before it is fetched."""

from __future__ import annotations

from typing import Final

from specchat.catalogue.body import open_body
from specchat.catalogue.download import check_pin
from specchat.catalogue.hub import Hub, RemoteContent
from specchat.catalogue.hub_errors import HubError, Problem
from specchat.catalogue.sources import HubFile

MOST_BYTES: Final = 24 << 20
"""Fetched of one file at most."""
_FIRST_STEP: Final = 512 << 10
_LARGEST_STEP: Final = 4 << 20


class RemoteFile:
    """A file of the hub whose beginning is read by ranged requests; what was read once is not fetched again.

    All reading raises HubError, also where the hub's file is not what the source pins.
    """

    def __init__(self, source: HubFile, hub: Hub | None = None) -> None:
        self._source = source
        self._hub = hub or Hub()
        self._content: RemoteContent | None = None
        self._prefix = bytearray()
        self.moved = 0
        """Bytes fetched over the network so far."""

    @property
    def content(self) -> RemoteContent:
        """What the hub says of the file: its size among other things; asked once."""
        if self._content is None:
            self._content = check_pin(self._hub.metadata(self._source))
        return self._content

    @property
    def size(self) -> int:
        """Of the whole file, in bytes."""
        return self.content.size

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer only where the file ends. At most MOST_BYTES from the start."""
        end = min(offset + length, self.size)
        attempt = 0
        while len(self._prefix) < end:
            try:
                self._extend(end)
            except HubError as error:
                attempt += 1
                self._content = self._hub.recover(error, attempt, self.content, lost=self.moved > 0)
        return bytes(self._prefix[offset:end])

    def _extend(self, end: int) -> None:
        """Fetch on to `end` at least, and a little ahead: every request costs a round trip."""
        have = len(self._prefix)
        step = max(_FIRST_STEP, min(have, _LARGEST_STEP))
        end = min(max(end, have + step), self.size)
        if self.moved + end - have > MOST_BYTES:
            end = have + MOST_BYTES - self.moved
        if end <= have:
            raise HubError(
                f"The header of {self._source.file} takes more than {MOST_BYTES >> 20} MiB; no model's header should.",
                Problem.CONTENT,
            )
        with open_body(self._hub, self.content, have, end - 1) as body:
            for chunk, moved in body.chunks():
                self.moved += moved
                self._prefix += chunk[: end - len(self._prefix)]
                if len(self._prefix) == end:
                    return
                if self.moved > MOST_BYTES:
                    break
        raise HubError(f"{body.host} has ended the file early. Try again.", Problem.CUT, again=True)
