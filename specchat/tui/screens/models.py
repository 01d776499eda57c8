"""Choosing a model: what there is, what drafts for it, whether it fits, and fetching what isn't here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import DataTable, Input, Static

from specchat.chat.amounts import size
from specchat.tui.panel.strokes import meter
from specchat.tui.screens.confirm import Confirm
from specchat.tui.screens.dialog import Dialog
from specchat.tui.shelf import Download, DownloadProgress, DownloadState, Fit, Offer, Shelf, ShelfRow

_FIT: Final = "on this machine"
_COLUMNS: Final = (("", 1), ("model", 33), (_FIT, 26), ("size", 9), ("draft", 13), ("method", 11))
"""The most needed first: a narrow terminal shows as many as there is room for."""
_NARROW_COLUMNS: Final = (("", 1), ("model", 16), (_FIT, 14), ("size", 9), ("draft", 12), ("method", 10))
_FIT_WIDTH: Final = 26
_WIDE: Final = 70
_POLL_S: Final = 0.2


class ModelPicker(Dialog[str]):
    """The list; its result is the id of the model to load."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "find"),
        Binding("space", "pause", "pause or go on"),
        Binding("b", "best", "best"),
        Binding("x", "forget", "forget a download"),
    ]
    title_text = "Models"
    hint = "enter choose or fetch   space pause   x forget   b best that fits   / find   esc close"

    def __init__(
        self,
        shelf: Shelf,
        present: str,
        downloads: dict[str, Download],
        *,
        freed: int = 0,
        at: str = "",
        fetch: bool = False,
    ) -> None:
        """`freed`: bytes that closing the open model frees; `at`: where the cursor begins; `fetch`: and is offered."""
        super().__init__()
        self._shelf, self._present, self._downloads, self._freed = shelf, present, downloads, freed
        self._at, self._fetch_at_once = at, fetch
        self._rows: Sequence[ShelfRow] = ()
        self._fits: dict[str, Fit] = {}
        self._waiting: str | None = None
        """Chosen, and loaded once it has been fetched."""

    def body(self) -> ComposeResult:
        """A line to find in, the list, and what is being fetched."""
        yield Input(placeholder="find a model", id="find")
        table: DataTable[Text] = DataTable(cursor_type="row", id="rows", zebra_stripes=False)
        for label, width in _COLUMNS if self.app.size.width >= _WIDE else _NARROW_COLUMNS:
            table.add_column(label, width=width, key=label or "mark")
        yield table
        yield Static(id="said", classes="complaint", markup=False)
        yield Static(id="download", markup=False)

    def on_mount(self) -> None:
        """Read the list, then what fits, without keeping anybody waiting."""
        self.query_one("#rows").focus()
        self._read()
        self.set_interval(_POLL_S, self._watch_download)
        if self._fetch_at_once:
            self._offer(self._at)

    @work(exclusive=True, group="read")
    async def _read(self) -> None:
        try:
            self._rows = await asyncio.to_thread(self._shelf.rows)
        except Exception as error:  # whatever a shelf says is a sentence for the user
            self._say(str(error))
            return
        self._draw()
        try:
            await asyncio.to_thread(self._shelf.look_again, self._freed)
            await self._judge()
        finally:
            self._rest()

    def _rest(self) -> None:
        # Not awaited: what is being judged when the list is closed may take a while yet.
        asyncio.get_running_loop().run_in_executor(None, self._shelf.rest)

    async def _judge(self) -> None:
        for row in self._rows:
            try:
                self._fits[row.id] = await asyncio.to_thread(self._shelf.fit, row.id)
            except Exception as error:  # one model that can't be judged must not hide the others
                self._fits[row.id] = Fit(str(error))
            self._draw_fit(row.id)

    def _say(self, sentence: str) -> None:
        self.query_one("#said", Static).update(Content(sentence))

    def _draw(self) -> None:
        table = self.query_one("#rows", DataTable)
        at = self._under_cursor()
        words = self.query_one("#find", Input).value.casefold()
        rows = [row for row in self._rows if words in f"{row.id} {row.name}".casefold()]
        table.clear()
        for row in rows:
            table.add_row(*self._cells(row), key=row.id)
        wanted = at or self._at or self._present
        place = next((i for i, row in enumerate(rows) if row.id == wanted), 0)
        table.move_cursor(row=place)

    def _draw_fit(self, id: str) -> None:
        table = self.query_one("#rows", DataTable)
        if id in table.rows:
            table.update_cell(id, _FIT, self._fit_cell(id))
            if id == self._under_cursor():
                self._say_fit()

    def _fit_cell(self, id: str) -> Text:
        fit = self._fits.get(id)
        if fit is None:
            return Text("…", style="dim")
        error = self.app.theme_variables.get("error", "red")
        return Text(fit.words, style="dim" if fit.fits is None else "" if fit.fits else error)

    def _cells(self, row: ShelfRow) -> list[Text]:
        mark = "●" if row.id == self._present else ("✓" if row.here else "↓")
        rest = (size(row.size) if row.size else "", row.draft or "–", row.method or "auto")
        return [Text(mark), Text(row.name), self._fit_cell(row.id), *(Text(cell) for cell in rest)]

    def _under_cursor(self) -> str | None:
        table = self.query_one("#rows", DataTable)
        if not table.row_count:
            return None
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def on_data_table_row_highlighted(self, _event: DataTable.RowHighlighted) -> None:
        """Say what is too long for its column."""
        self._say_fit()

    def _say_fit(self) -> None:
        fit = self._fits.get(self._under_cursor() or "")
        self._say(fit.words if fit is not None and len(fit.words) > _FIT_WIDTH else "")

    def on_input_changed(self, _event: Input.Changed) -> None:
        """Narrow the list while the name is written."""
        self._draw()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """From the name to the list."""
        self.query_one("#rows").focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a model."""
        self._choose(str(event.row_key.value))

    def _choose(self, id: str) -> None:
        row = next((row for row in self._rows if row.id == id), None)
        if row is None or row.here:
            self.dismiss(id)
        elif id in self._downloads:
            self._waiting = id
            self._downloads[id].resume()
            self._watch_download()
        else:
            self._offer(id)

    @work(exclusive=True, group="offer")
    async def _offer(self, id: str) -> None:
        """Say what fetching a model means, and do it where the user agrees."""
        try:
            if id not in self._fits:
                self.notify("Looking whether it fits …", timeout=2)
            offer = await asyncio.to_thread(self._shelf.offer, id)
            fit = self._fits[id] if id in self._fits else await asyncio.to_thread(self._shelf.fit, id)
            question = Confirm("Fetch a model", offer_words(offer, fit), "Fetch it", "Not now")
            if not await self.app.push_screen_wait(question):
                return
            self._downloads[id] = await asyncio.to_thread(self._shelf.fetch, id)
        except Exception as error:  # a sentence for the user
            self._say(str(error))
            return
        finally:
            self._rest()
        self._waiting = id
        self._watch_download()

    def _watch_download(self) -> None:
        if not self.is_active:
            # Something lies over the list; there is time.
            return
        id = self._waiting if self._waiting in self._downloads else next(iter(self._downloads), None)
        download = self._downloads.get(id or "")
        if id is None or download is None:
            self.query_one("#download", Static).update("")
            return
        progress = download.progress()
        self.query_one("#download", Static).update(download_line(id, progress))
        if progress.state is DownloadState.DONE:
            self._downloads.pop(id, None)
            if id == self._waiting:
                self.dismiss(id)
            else:
                self._read()

    def action_forget(self) -> None:
        """Speak no more of a download that is paused or failed; what was fetched stays on the disk."""
        under = self._under_cursor()
        id = under if under in self._downloads else next(iter(self._downloads), None)
        if id is None:
            return
        if self._downloads[id].progress().state is DownloadState.RUNNING:
            self._say("This download is under way. Pause it first (space).")
            return
        del self._downloads[id]
        self._waiting = None if self._waiting == id else self._waiting
        self._say("")
        self._watch_download()

    def action_pause(self) -> None:
        """Pause the download, or let it go on."""
        for download in self._downloads.values():
            state = download.progress().state
            download.pause() if state is DownloadState.RUNNING else download.resume()
        self._watch_download()

    def action_find(self) -> None:
        """Write a name."""
        self.query_one("#find").focus()

    @work(exclusive=True, group="best")
    async def action_best(self) -> None:
        """Choose the best model that this machine can run."""
        try:
            id = await asyncio.to_thread(self._shelf.best)
        except Exception as error:  # a sentence for the user
            self._say(str(error))
            return
        finally:
            self._rest()
        if id is None:
            self._say("None of these models fits this machine. A smaller one can be named: /model PATH.")
        else:
            self._choose(id)


def offer_words(offer: Offer, fit: Fit) -> str:
    """What the user agrees to: files and sizes, licence, place, and whether it will run."""
    whole = f"{size(offer.size)} to fetch" if offer.size else "to fetch, of a size that is not known"
    lines = [f"{offer.name}: {whole}"]
    lines += [f"  {name}  {size(count) if count else ''}".rstrip() for name, count in offer.files]
    terms = f"licence: {offer.licence or 'not known'}"
    lines += [terms + (", whose terms must be accepted on the hub first" if offer.gated else "")]
    lines += [f"to: {offer.destination} ({size(offer.free)} free)"]
    lines += [f"on this machine: {fit.words or 'not known'}"]
    if offer.size and offer.size > offer.free:
        lines += ["There is no room for it on that disk."]
    return "\n".join(lines)


def download_line(id: str, progress: DownloadProgress) -> Content:
    """A download as one line."""
    if progress.state is DownloadState.FAILED:
        return Content.styled(f"{id}: {progress.error} Enter tries again.", "$error")
    share = progress.done / progress.total if progress.total else 0.0
    full, empty = meter(share, 24)
    whole = f" of {size(progress.total)}" if progress.total else ""
    speed = f" · {size(progress.bytes_s)}/s" if progress.bytes_s else ""
    state = " · paused, space goes on" if progress.state is DownloadState.PAUSED else speed
    return Content.assemble(
        (f"{id} ", "$foreground"),
        (full, "$primary"),
        (empty, "$foreground 20%"),
        (f" {size(progress.done)}{whole}{state}", "$foreground-muted"),
    )
