"""The conversation: connects what the user says, the worker, the store and the screen."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import replace

from specchat.chat.conversation import Chat, Node
from specchat.chat.message import Role
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.tui.engine_state import EngineState, Phase
from specchat.tui.opening import Opening
from specchat.tui.options import ChatOptions
from specchat.tui.panel.track import Track
from specchat.tui.stage import EngineClient, Stage
from specchat.tui.threads import prompt_of
from specchat.tui.transcript.records import AnswerRecord, UserRecord
from specchat.tui.writing import Writing
from specchat.worker.messages import (
    Ask,
    Cancel,
    Figures,
    Load,
)


class Talk:
    """One conversation at a time, and the answer being written.

    Methods that write raise StoreError, whose message is for the user; the screen then shows what is stored.
    """

    def __init__(self, worker: EngineClient, store: Store, stage: Stage, options: ChatOptions) -> None:
        self.worker, self.store, self.stage, self.options = worker, store, stage, options
        self.engine = EngineState()
        self.track = Track()
        self.answers = options.answers
        self.system = self._usual_system = options.system
        self.speculate_next = True
        """False: the next answer is decoded plainly, to compare."""
        self.chat: Chat | None = None
        self.leaf: int | None = None
        """The message that the next question follows."""
        self.writing: Writing | None = None
        self.waiting: deque[str] = deque()
        """Questions written while another is being answered."""
        self.unsaved: list[tuple[Writing, str]] = []
        """Answers that the store could not take yet, each with why it ended."""
        self.editing = False
        """The next question begins a branch in the place of another."""
        self.history: list[tuple[Figures, bool]] = []
        """Figures of the answers since the start, and whether they were drafted for."""
        self._turn = 0
        self._writes_in = ""
        self._cut = False
        """The end of the branch is not shown, since it was taken back."""
        self._opening = Opening(store, stage, lambda: self.writing is not None or self.asking)
        self.asking = False
        """A question waits for the model or for the answer before."""

    # What the user does

    def open_model(self, load: Load) -> None:
        """Open a model in the place of the one that is open."""
        self.engine.opening(load)
        self.stage.withdraw_offer()
        self.worker.send(load)
        self.stage.changed()

    async def send(self, text: str) -> None:
        """Ask; while an answer is written or another question waits, after it."""
        if self.writing is not None or self.asking:
            self.waiting.append(text)
            self.stage.changed()
            return
        chat = self.chat
        if chat is None:
            model = self.engine.load.model if self.engine.load else ""
            chat = self.chat = self.store.new_chat(model=model, system=self.system)
        branches = self.editing
        node = self.store.add(chat.id, self.leaf, Role.USER, text)
        self.leaf, self.editing = node.id, False
        if branches:
            await self.show()
        else:
            versions = len(self.store.siblings(node.id))
            self.stage.add_user(UserRecord(str(node.id), text, (versions, versions)))
        try:
            await self._ask()
        except StoreError as error:
            # The question is stored: written once more it would stand there twice.
            self.stage.say(f"{error} /retry asks again.", "error")

    def stop(self) -> bool:
        """Stop the answer, keeping what was written, and take back what waits; whether there was anything to stop."""
        self.take_back_waiting()
        writing = self.writing
        if writing is None:
            was, self.asking = self.asking, False
            self.stage.changed()
            return was
        if not writing.stopping:
            writing.stopping = True
            self.worker.send(Cancel(writing.turn))
            self.stage.changed()
        return True

    def take_back_waiting(self) -> None:
        """Put the questions that wait for an answer's end back into the prompt."""
        if self.waiting:
            self.stage.put_in_prompt("\n\n".join(self.waiting))
            self.waiting.clear()

    def writes_in(self, chat_id: str) -> bool:
        """Whether an answer is being written in this conversation, on the screen or out of sight."""
        return self.writing is not None and self._writes_in == chat_id

    async def retry(self, node_id: int | None = None) -> None:
        """Answer the question of this message, or the last one, once more: a branch beside the old answer."""
        thread = self.thread()
        if node_id is not None:
            thread = thread[: 1 + next((place for place, node in enumerate(thread) if node.id == node_id), len(thread))]
        question = next((node for node in reversed(thread) if node.role is Role.USER), None)
        if question is None or self.chat is None:
            return
        self.store.select(self.chat.id, question.id)
        self.leaf, self.editing = question.id, False
        await self.show()
        await self._ask()

    async def undo(self, question: Node) -> None:
        """Take a question back into the prompt; the next one stands in its place."""
        await self.edit(question.id)
        await self.show(before=question.id)

    async def edit(self, node_id: int) -> None:
        """Put a question back into the prompt; sending it begins a branch beside it."""
        node = self.store.node(node_id)
        self.leaf, self.editing = node.parent, True
        self.stage.put_in_prompt(node.text)
        self.stage.changed()

    async def leave_editing(self) -> bool:
        """The next question follows the branch as it was, which is shown again; whether it did not before."""
        was, self.editing = self.editing, False
        if was:
            thread = self.thread()
            self.leaf = thread[-1].id if thread else None
            if self._cut:
                await self.show()
            self.stage.changed()
        return was

    async def branch_from(self, node_id: int) -> None:
        """The next question follows this message."""
        if self.chat is not None:
            self.store.select(self.chat.id, node_id)
            self.leaf, self.editing = node_id, False
            await self.show()

    async def walk(self, node_id: int, step: int) -> Node | None:
        """Show the version of this message `step` places further and return it; None where there is none."""
        version = self.store.walk(node_id, step)
        if version is None:
            return None
        thread = self.thread()
        self.leaf, self.editing = thread[-1].id, False
        await self.show()
        return version

    async def new(self) -> None:
        """Begin an empty conversation."""
        self._leave()
        self.chat, self.leaf, self.system = None, None, self._usual_system
        self.stage.load(())
        self.stage.changed()

    async def open(self, chat_id: str) -> None:
        """Show a conversation and go on with it."""
        chat = self.store.chat(chat_id)
        self._leave()
        self.chat, self.system = chat, chat.system
        thread = self.thread()
        self.leaf = thread[-1].id if thread else None
        await self.show()

    def set_system(self, system: str) -> None:
        """Another system prompt, from the next answer on."""
        self.system = self._usual_system = system
        if self.chat is not None:
            self.store.set_system(self.chat.id, system)

    def thread(self) -> list[Node]:
        """The branch on the screen."""
        return self.store.thread(self.chat.id) if self.chat is not None else []

    async def show(self, *, before: int | None = None) -> None:
        """Show the present branch as it is stored, or what comes in it before a message."""
        if self.chat is not None:
            self._cut = before is not None
            await self._opening.show(self.chat.id, before)
            self.stage.changed()

    def _leave(self) -> None:
        """Another conversation is coming: an answer being written is finished out of sight."""
        self.stop()
        self._opening.forget()
        self.waiting.clear()
        self.editing = self.asking = False
        if self.writing is not None:
            self.writing.shown = False
        self.engine.context_used = 0

    # Asking

    async def _ask(self) -> None:
        """Have the last question answered, as soon as a model is there and the answer before is finished."""
        self.asking = True
        self.stage.changed()
        await self.ask_if_ready()

    async def ask_if_ready(self) -> None:
        """Have the waiting question answered, if a model is there and the answer before is finished."""
        chat = self.chat
        if not self.asking or chat is None or self.writing is not None or self.engine.loaded is None:
            return
        self.asking = False
        thread = self.thread()
        node = self.store.add(chat.id, self.leaf, Role.ASSISTANT, "", model=self.engine.loaded.name)
        self.leaf = node.id
        self._turn += 1
        max_tokens = self.answers.max_tokens
        self.writing = Writing(self._turn, node.id, self.speculate_next, self.options.clock(), max_tokens)
        self._writes_in = chat.id
        self.track.begin()
        siblings = self.store.siblings(node.id)
        branch = (len(siblings), len(siblings))
        self.stage.begin_answer(AnswerRecord(str(node.id), node.model, branch=branch, max_tokens=max_tokens))
        answers = self.answers
        self.worker.send(
            Ask(
                turn=self._turn,
                chat=chat.id,
                messages=prompt_of(self.system, thread),
                sampling=dict(answers.sampling),
                accept=answers.accept,
                seed=answers.seed,
                branch=len(siblings) - 1,
                max_tokens=answers.max_tokens,
                thinking=answers.thinking,
                stop_strings=answers.stop,
                speculate=self.speculate_next,
            )
        )
        self.speculate_next = True
        self.stage.changed()

    async def close(self) -> None:
        """Keep what was written, and end the worker."""
        writing, self.writing = self.writing, None
        unsaved = [*self.unsaved, (writing, "cancelled")] if writing is not None else self.unsaved
        for answer, reason in unsaved:
            with contextlib.suppress(StoreError):
                await answer.save_finished(self.store, reason)
        await self.worker.close()

    def set_thinking(self, thinking: bool | None) -> None:
        """Whether the model thinks first, from the next answer on."""
        self.answers = replace(self.answers, thinking=thinking)
        self.stage.changed()

    @property
    def loading(self) -> bool:
        """A model is being opened."""
        return self.engine.phase is Phase.LOADING
