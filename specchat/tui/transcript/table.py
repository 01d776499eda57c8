"""Tables of Markdown as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.cache import LRUCache
from textual.content import Content

from specchat.tui.transcript.blocks import Table
from specchat.tui.transcript.line import Line

_BETWEEN = "  "


class TableRows:
    """Lays tables out. A row that was laid out before is not again while the columns stay as wide as they are."""

    def __init__(self) -> None:
        self._known: LRUCache[tuple[object, ...], tuple[Sequence[Content], tuple[Line, ...]]] = LRUCache(1 << 12)

    def lines(self, table: Table, width: int) -> Iterator[Line]:
        """The rows of a table, its columns as wide as they need to be or as there is room for."""
        columns = max([len(table.header), *(len(row) for row in table.rows)], default=0)
        if not columns:
            return
        widths = tuple(_widths([table.header, *table.rows], columns, width - len(_BETWEEN) * (columns - 1)))
        aligned = (*table.aligned, *["left"] * columns)[:columns]
        yield from _row([cell.stylize(".table-header") for cell in table.header], widths, aligned)
        yield Line(Content.styled(_BETWEEN.join("─" * cells for cells in widths), ".rule"))
        for row in table.rows:
            key = (*map(id, row), widths, aligned)
            known = self._known.get(key)
            if known is None:
                # The cells are kept beside the rows, so that their ids can't become others'.
                known = self._known[key] = (row, tuple(_row(row, widths, aligned)))
            yield from known[1]


def _widths(rows: Sequence[Sequence[Content]], columns: int, room: int) -> list[int]:
    """Cells for each column: what its longest text needs, cut from the widest until all fit."""
    needed = [1] * columns
    for row in rows:
        for index, cell in enumerate(row):
            needed[index] = max(needed[index], cell.cell_length)
    room = max(room, 2 * columns)
    fair = _share(needed, room)
    return [max(2, min(cells, fair)) for cells in needed]


def _share(needed: Sequence[int], room: int) -> int:
    """The most cells that every column may have so that all together fit."""
    share = room
    for index, cells in enumerate(sorted(needed)):
        share = room // (len(needed) - index)
        if cells > share:
            break
        room -= cells
    else:
        share = max(needed)
    return max(2, share)


def _row(cells: Sequence[Content], widths: Sequence[int], aligned: Sequence[str]) -> Iterator[Line]:
    columns = [
        cells[index].wrap(width) if index < len(cells) and cells[index] else [Content("")]
        for index, width in enumerate(widths)
    ]
    for depth in range(max(map(len, columns))):
        parts = [
            _placed(column[depth] if depth < len(column) else Content(""), width, side)
            for column, width, side in zip(columns, widths, aligned, strict=False)
        ]
        yield Line(Content(_BETWEEN).join(parts))


def _placed(cell: Content, width: int, side: str) -> Content:
    spare = max(0, width - cell.cell_length)
    left = spare if side == "right" else spare // 2 if side == "center" else 0
    return cell.pad(left, spare - left)
