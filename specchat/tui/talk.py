"""The conversation: connects what the user says, the worker, the store and the screen."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import replace

from specchat.chat.message import Role
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.tui.aside import Aside
from specchat.tui.branches import Branches
from specchat.tui.engine_state import EngineState, Phase
from specchat.tui.options import ChatOptions
from specchat.tui.panel.track import Track
from specchat.tui.stage import EngineClient, Stage
from specchat.tui.threads import told
from specchat.tui.transcript.records import AnswerRecord, UserRecord
from specchat.tui.writing import Writing
from specchat.worker.messages import Ask, Cancel, Figures, Load


class Talk(Branches):
    """One conversation at a time, and the answer being written.

    Methods that write raise StoreError, whose message is for the user; the screen then shows what is stored.
    """

    def __init__(self, worker: EngineClient, store: Store, stage: Stage, options: ChatOptions) -> None:
        super().__init__(store, stage, options)
        self.worker = worker
        self.engine = EngineState()
        self.track = Track()
        self.answers = options.answers
        self._usual_system = options.system
        self.speculate_next = True
        """False: the next answer is decoded plainly, to compare."""
        self.writing: Writing | None = None
        self.aside: Aside | None = None
        """What is written out of sight, before any other question."""
        self.waiting: deque[str] = deque()
        """Questions written while another is being answered."""
        self.unsaved: list[tuple[Writing, str]] = []
        """Answers that the store could not take yet, each with why it ended."""
        self.history: list[tuple[Figures, bool]] = []
        """Figures of the answers since the start, and whether they were drafted for."""
        self._turn = 0
        self._writes_in = ""
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
        if self.busy:
            self.waiting.append(text)
            self.stage.changed()
            return
        chat = self.chat
        if chat is None:
            model = self.engine.load.model if self.engine.load else ""
            chat = self.chat = self.store.new_chat(model=model, system=self.system)
        anew = self.editing or not self._opening.at_end
        node = self.store.add(chat.id, self.leaf, Role.USER, text)
        self.leaf, self.editing = node.id, False
        if anew:
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
        if self.aside is not None:
            self.aside.stop()
            self.stage.changed()
            return True
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

    async def new(self) -> None:
        """Begin an empty conversation."""
        self._leave()
        self.chat, self.leaf, self.system = None, None, self._usual_system
        self.stage.load(())
        self.stage.changed()

    async def open(self, chat_id: str, node_id: int | None = None) -> None:
        """Show a conversation and go on with it, in a branch through a message where one is named."""
        chat = self.store.chat(chat_id)
        self._leave()
        self.chat, self.system = chat, chat.system
        if node_id is not None:
            await self.show_through(node_id)
            return
        newest = self.store.thread(chat_id, last=1)
        self.leaf = newest[-1].id if newest else None
        await self.show()

    def set_system(self, system: str) -> None:
        """Another system prompt, from the next answer on."""
        self.system = self._usual_system = system
        if self.chat is not None:
            self.store.set_system(self.chat.id, system)

    def _leave(self) -> None:
        """Another conversation is coming: an answer being written is finished out of sight."""
        self.stop()
        self.stage.withdraw_room()
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
        busy = self.writing is not None or self.aside is not None
        if not self.asking or chat is None or busy or self.engine.loaded is None:
            return
        self.stage.withdraw_room()
        if not self._opening.at_end:
            # The answer is added to what is shown.
            await self.show()
        self.asking = False
        thread = self.thread()
        node = self.store.add(chat.id, self.leaf, Role.ASSISTANT, "", model=self.engine.loaded.name)
        self.leaf = node.id
        max_tokens = self.answers.max_tokens
        self.writing = Writing(self._turn + 1, node.id, self.speculate_next, self.options.clock(), max_tokens)
        self._writes_in = chat.id
        self.track.begin()
        siblings = self.store.siblings(node.id)
        branch = (len(siblings), len(siblings))
        self.stage.begin_answer(AnswerRecord(str(node.id), node.model, branch=branch, max_tokens=max_tokens))
        messages = told(self.asked(thread))
        self.worker.send(self.request(messages, chat.id, branch=len(siblings) - 1, speculate=self.speculate_next))
        self.speculate_next = True
        self.stage.changed()

    def request(
        self,
        messages: tuple[tuple[str, str], ...],
        chat_id: str = "",
        *,
        branch: int = 0,
        speculate: bool = True,
        max_tokens: int | None = None,
    ) -> Ask:
        """The next answer as it is asked for, drawn as the user set it; without a conversation none of it is kept."""
        self._turn += 1
        answers = self.answers
        return Ask(
            turn=self._turn,
            chat=chat_id,
            messages=messages,
            sampling=dict(answers.sampling),
            accept=answers.accept,
            seed=answers.seed,
            branch=branch,
            max_tokens=max_tokens or answers.max_tokens,
            thinking=answers.thinking,
            stop_strings=answers.stop,
            speculate=speculate,
        )

    def begin_aside(self, words: str) -> Aside:
        """Begin something out of sight; raises ValueError, with a sentence, where anything is under way."""
        if self.aside is not None:
            raise ValueError(f"Something is under way already: {self.aside.words}. Stop it first (Esc).")
        if self.busy:
            raise ValueError("An answer is being written. Stop it first (Esc).")
        self.aside = Aside(self.worker.send, words)
        self.stage.changed()
        return self.aside

    async def end_aside(self) -> None:
        """It is over: what was asked meanwhile comes next."""
        self.aside = None
        self.stage.changed()
        await self.go_on()

    async def remove(self, node_id: int) -> None:
        """Delete a message with what follows it; what was asked meanwhile comes next."""
        try:
            await super().remove(node_id)
        finally:
            await self.go_on()

    async def go_on(self) -> None:
        """Have the question answered that waits for the model, else the next one."""
        question = ""
        try:
            await self.ask_if_ready()
            if self.waiting and not self.busy:
                question = self.waiting.popleft()
                await self.send(question)
        except StoreError as error:
            # The question that waited for the model is stored; those behind it are nowhere but here.
            self.stage.say(str(error) if question else f"{error} /retry asks again.", "error")
            unasked = [question, *self.waiting] if question else list(self.waiting)
            self.waiting.clear()
            if unasked:
                self.stage.put_in_prompt("\n\n".join(unasked))

    async def close(self) -> None:
        """Keep what was written, and end the worker."""
        if self.aside is not None:
            self.aside.stop()
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
    def busy(self) -> bool:
        """An answer is written or waited for, a message deleted, or something is under way out of sight."""
        return self.writing is not None or self.asking or self.aside is not None or self.removing

    @property
    def loading(self) -> bool:
        """A model is being opened."""
        return self.engine.phase is Phase.LOADING
