"""Past conversations: a list, narrowed by the words written above it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import ClassVar, Final, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from specchat.chat.conversation import Hit, Summary, one_line
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.tui.faults import expected, sentence_of
from specchat.tui.screens.ask_line import AskLine
from specchat.tui.screens.confirm import Confirm
from specchat.tui.screens.dialog import Dialog
from specchat.tui.wording import day

_LISTED: Final = 200
_FOUND: Final = 40


class Place(NamedTuple):
    """Where to go on reading."""

    chat_id: str
    node_id: int | None
    """The message that was found; None where none was looked for, or only the title has the words."""


class ChatBrowser(Dialog[Place]):
    """Its result is the conversation to open, and the message that was found in it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move('cursor_down')", "down", priority=True),
        Binding("up", "move('cursor_up')", "up", priority=True),
        Binding("pagedown", "move('page_down')", "down", priority=True),
        Binding("pageup", "move('page_up')", "up", priority=True),
        Binding("f6", "rename", "rename"),
        Binding("f8", "delete", "delete"),
    ]
    title_text = "Conversations"
    hint = "enter open   F6 rename   F8 delete   esc close"

    def __init__(
        self,
        store: Store,
        present: str | None,
        now: Callable[[], datetime],
        delete: Callable[[str], Awaitable[None]],
        words: str,
    ) -> None:
        super().__init__()
        self._store, self._present, self._now, self._delete, self._words = store, present, now, delete, words
        self._titles: dict[str, str] = {}
        self._found: dict[str, int] = {}
        """The newest message with the words, by its conversation."""
        self._listed_for: str | None = None
        """The words whose conversations are listed."""
        self._opens_first = False
        """Enter was pressed before they were."""

    def body(self) -> ComposeResult:
        """A line to write in, and the list."""
        yield Input(self._words, placeholder="words in titles and messages", id="words", select_on_focus=False)
        yield OptionList(id="chats", markup=False)
        yield Static(id="said", classes="complaint", markup=False)

    def on_mount(self) -> None:
        """Show the latest."""
        self.query_one("#words").focus()
        self._search(self._words)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list."""
        self._opens_first = False
        self._search(event.value)

    @work(exclusive=True)
    async def _search(self, words: str) -> None:
        self._listed_for = None
        try:
            chats = await asyncio.to_thread(self._store.chats, _LISTED, query=words)
            hits = await asyncio.to_thread(self._store.search, words, _FOUND) if words.strip() else []
        except StoreError as error:
            self.query_one("#said", Static).update(Content(str(error)))
            return
        self._list(words, chats, hits)
        if self._opens_first:
            self._opens_first = False
            self._open()

    def _list(self, query: str, chats: list[Summary], hits: list[Hit]) -> None:
        newest: dict[str, Hit] = {}
        for hit in hits:
            newest.setdefault(hit.chat_id, hit)
        snippets = {chat_id: hit.snippet for chat_id, hit in newest.items()}
        self._found = {chat_id: hit.node_id for chat_id, hit in newest.items()}
        options = self.query_one("#chats", OptionList)
        options.clear_options()
        self._listed_for = query
        self._titles = {chat.id: chat.title for chat in chats}
        options.add_options(Option(self._shown(chat, snippets.get(chat.id)), id=chat.id) for chat in chats)
        if chats:
            options.highlighted = 0
        words = self.query_one("#words", Input).value.strip()
        none = "No conversation has these words." if words else "There are no conversations yet."
        self.query_one("#said", Static).update(Content("" if chats else none))

    def _shown(self, chat: Summary, snippet: str | None) -> Content:
        mark = "● " if chat.id == self._present else "  "
        when = day(datetime.fromtimestamp(chat.updated), self._now())
        about = f"    {when} · {chat.messages} messages · {one_line(chat.model)}"
        lines = [
            Content.assemble((mark, "$primary"), (one_line(chat.title) or "untitled", "bold")),
            Content.styled(about, "$foreground-muted"),
        ]
        if snippet:
            lines.append(Content.styled(f"    {one_line(snippet)}", "$secondary"))
        return Content("\n").join(lines)

    def action_move(self, how: str) -> None:
        """Move in the list while writing above it."""
        getattr(self.query_one("#chats", OptionList), f"action_{how}")()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Open what is under the cursor, once the list is the one of the words above it."""
        if self._listed_for != self.query_one("#words", Input).value:
            self._opens_first = True
        else:
            self._open()

    def _open(self) -> None:
        id = self._under_cursor()
        if id is not None:
            self.dismiss(Place(id, self._found.get(id)))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open what was clicked."""
        if event.option_id is not None:
            self.dismiss(Place(event.option_id, self._found.get(event.option_id)))

    def _under_cursor(self) -> str | None:
        options = self.query_one("#chats", OptionList)
        if options.highlighted is None:
            return None
        return options.get_option_at_index(options.highlighted).id

    def action_rename(self) -> None:
        """Give the conversation under the cursor another title."""
        id = self._under_cursor()
        if id is None:
            return

        async def rename(title: str | None) -> None:
            if title:
                await self._change(asyncio.to_thread(self._store.rename, id, title))

        self.app.push_screen(AskLine("Rename the conversation", self._titles.get(id, "")), rename)

    def action_delete(self) -> None:
        """Delete the conversation under the cursor, after asking."""
        id = self._under_cursor()
        if id is None:
            return

        async def delete(sure: bool | None) -> None:
            if sure:
                await self._change(self._delete(id))

        title = one_line(self._titles.get(id, "")) or "untitled"
        question = f"Delete “{title}” with all its branches? It can't be brought back."
        self.app.push_screen(Confirm("Delete a conversation", question, "Delete it"), delete)

    async def _change(self, change: Awaitable[None]) -> None:
        try:
            await change
        except expected() as error:
            self.query_one("#said", Static).update(Content(sentence_of(error)))
            return
        self._search(self.query_one("#words", Input).value)
