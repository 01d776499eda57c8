"""Where in the tree of a conversation the user is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from specchat.chat.conversation import Chat, Node
from specchat.chat.reading import Asked, Cut, asked, cut_in
from specchat.chat.store import Store
from specchat.tui.opening import Opening
from specchat.tui.options import ChatOptions
from specchat.tui.stage import Stage


class Branches:
    """The branch on the screen, and ways to others. Methods raise StoreError, whose message is for the user."""

    def __init__(self, store: Store, stage: Stage, options: ChatOptions) -> None:
        self.store, self.stage, self.options = store, stage, options
        self.chat: Chat | None = None
        self.system = options.system
        self.leaf: int | None = None
        """The message that the next question follows."""
        self.editing = False
        """The next question begins a branch in the place of another."""
        self.removing = False
        """A message is being deleted, with all that would follow it."""
        self._cut_short = False
        """The end of the branch is not shown, since it was taken back."""
        self._opening = Opening(store, stage, lambda: self.busy)

    @property
    def busy(self) -> bool:
        """Something is being written, so that what is shown must stay."""
        raise NotImplementedError

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
            if self._cut_short:
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

    async def show_through(self, node_id: int) -> None:
        """Show a branch that has this message, with the cursor on it: the present one, else the newest."""
        if self.chat is None:
            return
        branch = self.store.thread_ids(self.chat.id)
        if node_id not in branch:
            self.store.select(self.chat.id, self.store.leaf_below(node_id))
            branch = self.store.thread_ids(self.chat.id)
        self.leaf, self.editing, self._cut_short = branch[-1], False, False
        await self._opening.show(self.chat.id, at=node_id)
        self.stage.changed()

    def thread(self) -> list[Node]:
        """The branch on the screen."""
        return self.store.thread(self.chat.id) if self.chat is not None else []

    def cut(self, thread: Sequence[Node]) -> Cut | None:
        """Where the model begins to read a branch of this conversation, if not at its beginning."""
        if self.chat is None:
            return None
        return cut_in([node.id for node in thread], self.store.cuts(self.chat.id))

    def asked(self, thread: Sequence[Node]) -> Asked:
        """What the model is asked with to answer the last question of a branch."""
        return asked(self.system, thread, self.cut(thread))

    async def remove(self, node_id: int) -> None:
        """Delete a message with what follows it; another branch is shown, or what comes before it."""
        self.removing = True
        try:
            await asyncio.to_thread(self.options.forget_message or self.store.remove, node_id)
        finally:
            self.removing = False
        thread = self.thread()
        self.leaf, self.editing = thread[-1].id if thread else None, False
        await self.show()

    async def show(self, *, before: int | None = None) -> None:
        """Show the present branch as it is stored, or what comes in it before a message."""
        if self.chat is not None:
            self._cut_short = before is not None
            await self._opening.show(self.chat.id, before)
            self.stage.changed()
