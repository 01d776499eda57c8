"""The chat: one screen, and the registry's actions on it."""

from __future__ import annotations

import gc
from collections.abc import Awaitable
from typing import ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Static, TextArea

from specchat.bench.comparison import Comparison
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.tui import theme
from specchat.tui.actions import ACTIONS, BY_ID, Action, Situation
from specchat.tui.arriving import arrived
from specchat.tui.attaching import names_of
from specchat.tui.completion import Completion
from specchat.tui.faults import TellsFaults, expected, sentence_of
from specchat.tui.footer import Footer
from specchat.tui.header import Header
from specchat.tui.hearing import Hearing
from specchat.tui.jumping import Jumps
from specchat.tui.keymap import bindings_of, keymap_of, resolve
from specchat.tui.notice import Notice
from specchat.tui.on_screen import OnScreen
from specchat.tui.options import ChatOptions
from specchat.tui.palette import ActionCommands
from specchat.tui.panel.panel import Panel
from specchat.tui.prompt import PromptArea
from specchat.tui.shelf import Download, Shelf
from specchat.tui.shortening import Shortening
from specchat.tui.showing import choice_of, welcome
from specchat.tui.stage import EngineClient, Severity
from specchat.tui.submitting import submit
from specchat.tui.talk import Talk
from specchat.tui.transcript import Transcript

_PLACEHOLDER: Final = "Ask something, or begin with / for a command"
_LOOK_AT_DOWNLOADS_S: Final = 1.0
_SAVE_AGAIN_S: Final = 5.0
PANEL_FROM: Final = 100
"""Columns from which there is room for the panel beside the text."""


class ChatApp(TellsFaults, inherit_bindings=False):
    """The chat over a worker, a store of conversations and a shelf of models."""

    CSS_PATH = "app.tcss"
    TITLE = "specchat"
    # Our own key opens the palette: it can be changed like any other.
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    COMMANDS: ClassVar = {ActionCommands, Jumps}
    BINDINGS: ClassVar[list[BindingType]] = list(bindings_of(ACTIONS))
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (70, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual declares it so

    def __init__(self, worker: EngineClient, store: Store, shelf: Shelf, options: ChatOptions) -> None:
        """Raises KeymapError for `options.keys` that can't be meant."""
        self.keys = resolve(options.keys)
        super().__init__()
        self.use_command_palette = True
        self.set_keymap(keymap_of(options.keys, self.keys))
        for own in theme.OWN:
            self.register_theme(own)
        self.theme = options.theme if options.theme in self.available_themes else theme.DEFAULT
        self.options, self.store, self.shelf = options, store, shelf
        self.stage = OnScreen(self)
        self.talk = Talk(worker, store, self.stage, options)
        self.shortening = Shortening(self.talk)
        self._hearing = Hearing(self.talk, self.shortening)
        self.compared: Comparison | None = None
        """What /bench measured last."""
        self.downloads: dict[str, Download] = {}
        self.attached: dict[str, str] = {}
        """Files that go with the next question, as its text, by their paths."""
        self.last_interrupt: float | None = None
        self._panel_chosen = False
        self._hinted = False
        """A command is being typed."""

    def compose(self) -> ComposeResult:
        """Header, transcript with the panel beside it, prompt, keys."""
        yield Header()
        with Horizontal(id="body"):
            with Vertical(id="middle"):
                yield Static(welcome(self.keys), id="welcome")
                yield Transcript(id="transcript", clock=self.options.clock)
            yield Panel(id="panel")
        yield Notice(self.shelf, self.keys, id="notice")
        yield Static(id="status", markup=False)
        complete = Completion(lambda: [row.id for row in self.shelf.rows()], lambda: self.available_themes)
        yield PromptArea(id="prompt", history=self.options.history, complete=complete, placeholder=_PLACEHOLDER)
        yield Footer()

    # Start and end

    async def on_mount(self) -> None:
        """Paint first; the worker starts after."""
        self.query_one(Footer).keys = self.keys
        if self.options.prompt:
            self.prompt.set_text(self.options.prompt)
        self.prompt.focus()
        self.stage.show_whether_empty()
        self.set_interval(_LOOK_AT_DOWNLOADS_S, self._look_at_downloads)
        self.set_interval(_SAVE_AGAIN_S, self._hearing.save_again)
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        for note in (*self.options.notes, *self.store.notes):
            self.say(note, "warning")
        self._hear()
        await self.talk.worker.start()
        # What is there from the start stays: looking through all of it again would cost a tenth of a second each time.
        gc.freeze()
        gc.enable()
        if self.options.load is not None:
            self.talk.open_model(self.options.load)
        self.changed()
        await self.attempt(self._open_conversation())
        if self.options.load is None:
            await self.perform(BY_ID["model"], "")

    async def _open_conversation(self) -> None:
        latest = self.store.latest() if self.options.latest else None
        chat_id = self.options.chat or (latest.id if latest else None)
        if chat_id is not None:
            await self.talk.open(chat_id)

    @work
    async def _hear(self) -> None:
        async for event in self.talk.worker:
            if not self.stands:
                return
            try:
                await self._hearing.hear(event)
            except StoreError as error:
                self.say(str(error), "error")

    def _look_at_downloads(self) -> None:
        if self.downloads and self.stands:
            # The list of models, where it is open, does more.
            for id in arrived(self.downloads) if self.screen is self.base else ():
                self.say(f"{id} is here. /model {id} opens it.")
            self.changed()

    async def leave(self) -> None:
        """Keep what was written, free the models, end, whatever goes wrong on the way."""
        try:
            self.talk.take_back_waiting()
            self.prompt.clear_prompt()
            await self.talk.close()
            if self.options.remember_theme is not None and self.theme != self.options.theme:
                self.options.remember_theme(self.theme)
        finally:
            self.exit(0)

    # Actions

    def situation(self) -> Situation:
        """What is going on."""
        return self.stage.situation()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys do what makes sense now, and otherwise nothing."""
        if action != "act" or not self.stands:
            return True
        with_argument = len(parameters) > 1
        return with_argument or BY_ID[str(parameters[0])].when(self.situation())

    async def action_act(self, id: str, argument: str = "") -> None:
        """Do an action of the registry."""
        await self.perform(BY_ID[id], argument)

    async def perform(self, action: Action, argument: str) -> bool:
        """Do an action; what goes wrong is said, never thrown. Returns whether it went well."""
        return await self.attempt(action.load()(self, argument))

    async def attempt(self, deed: Awaitable[object]) -> bool:
        """Do something; what goes wrong is said, never thrown. Returns whether it went well."""
        try:
            await deed
        except expected() as error:
            self.say(sentence_of(error), "error")
            return False
        finally:
            self.changed()
        return True

    @on(PromptArea.Submitted)
    async def submitted(self, event: PromptArea.Submitted) -> None:
        """A prompt goes to the model, a command to its action."""
        if not self.prompt.full_text.startswith(event.text):
            return  # It was sent already: Enter was pressed twice while the screen stood still.
        await submit(self, event.text)

    @on(TextArea.Changed, "#prompt")
    def typed(self, event: TextArea.Changed) -> None:
        """The beginning of a command is helped with."""
        if event.text_area.text.startswith("/") or self._hinted:
            self._hinted = event.text_area.text.startswith("/")
            self.changed()

    @on(PromptArea.ScrollRequested)
    def scroll_requested(self, event: PromptArea.ScrollRequested) -> None:
        """The keys that scroll do so from the prompt too."""
        self.transcript.scroll_from_afar(event.pages)

    @on(PromptArea.FilesDropped)
    async def files_dropped(self, event: PromptArea.FilesDropped) -> None:
        """Files go with the next question."""
        for path in event.paths:
            await self.perform(BY_ID["file"], str(path))

    # What the transcript asks for

    @on(Transcript.CopyRequested)
    def copy_requested(self, event: Transcript.CopyRequested) -> None:
        """A message or one of its code blocks goes to the clipboard."""
        what = f"Code block {event.number} of {event.count}" if event.count else "The message"
        from specchat.tui.handlers.copying import put_on_clipboard

        put_on_clipboard(self, event.text, what)

    @on(Transcript.EditRequested)
    async def edit_requested(self, event: Transcript.EditRequested) -> None:
        """A question is written anew; not while an answer is written or waited for, which would lose its place."""
        if not self.situation().generating:
            await self.perform(BY_ID["edit"], event.node_id)

    @on(Transcript.SiblingRequested)
    async def sibling_requested(self, event: Transcript.SiblingRequested) -> None:
        """Another version of a message is shown."""
        if self.situation().generating:
            return
        await self.perform(BY_ID["next_branch" if event.step > 0 else "previous_branch"], event.node_id)

    # The stage

    @property
    def stands(self) -> bool:
        """Whether there is a screen: not before the start, and not any more at the end."""
        return self.is_running and bool(self.screen_stack)

    @property
    def base(self) -> Screen[object]:
        """The screen under all dialogs."""
        return self.screen_stack[0]

    @property
    def transcript(self) -> Transcript:
        """The conversation on the screen."""
        return self.base.query_one("#transcript", Transcript)

    @property
    def prompt(self) -> PromptArea:
        """Where the user writes."""
        return self.base.query_one("#prompt", PromptArea)

    def say(self, sentence: str, severity: Severity = "information") -> None:
        """A toast."""
        self.stage.say(sentence, severity)

    def put_in_prompt(self, text: str) -> None:
        """Put text before what stands in the prompt."""
        self.stage.put_in_prompt(text)

    def changed(self) -> None:
        """Something around the text may say something else now."""
        self.stage.changed()

    def on_descendant_focus(self) -> None:
        """Other keys make sense where the focus is now."""
        self.changed()

    # For the actions

    def attach(self, files: dict[str, str]) -> None:
        """These files, by their paths, and no others go with the next question."""
        self.attached = files
        self.prompt.set_attachments(names_of(files))

    def show_panel(self, visible: bool) -> None:
        """Show or hide the panel; from then on the width does not decide any more."""
        panel = self.base.query_one(Panel)
        self._panel_chosen = True
        panel.display = visible
        if visible:
            panel.show(self.talk.track, choice_of(self.talk))

    def on_resize(self, event: events.Resize) -> None:
        """A narrow terminal has no room for the panel, until the user wants it."""
        if not self._panel_chosen:
            self.base.query_one(Panel).display = event.size.width >= PANEL_FROM
