"""What the verbs of `specchat chats` do."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from specchat.chat.conversation import Node, one_line
from specchat.chat.message import Role
from specchat.chat.store import Store, store_path
from specchat.chat.store_file import NotStored, StoreError, StoreFull
from specchat.chat.text import visible
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.outcome import outcome
from specchat.cli.output import Stdout, as_json
from specchat.llama.errors import DoesNotFit, LlamaError

_ID_SHOWN = 8
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def _told(command: Callable[[Store], None], environment: Environment) -> ExitCode:
    """Run a verb on the user's conversations; errors become sentences with their exit codes."""

    def run() -> ExitCode:
        diagnostics = Diagnostics(environment)
        try:
            with Store(store_path()) as store:
                try:
                    command(store)
                finally:
                    for note in store.notes:
                        diagnostics.note(note)
        except NotStored as error:
            raise UsageError(str(error)) from None
        except StoreFull as error:
            raise DoesNotFit(str(error)) from None
        except StoreError as error:
            raise LlamaError(str(error)) from None
        return ExitCode.OK

    return outcome(run, environment)


def list_chats(environment: Environment, query: str, *, limit: int, json: bool = False) -> ExitCode:
    """Print one line a conversation: id, last message, messages, model, title, parted by tabs; or a JSON array."""

    def command(store: Store) -> None:
        found = store.chats(limit, query=query)
        if json:
            objects = [
                {
                    "id": one.id,
                    "title": one.title,
                    "model": one.model,
                    "updated": _utc(one.updated),
                    "messages": one.messages,
                }
                for one in found
            ]
            Stdout(environment).write(as_json(objects) + "\n")
            return
        lines = [(one.id, _when(one.updated, environment), str(one.messages), one.model, one.title) for one in found]
        _print_table(environment, lines)
        if not found:
            none = "no conversation has these words" if query.strip() else "there are no conversations yet"
            Diagnostics(environment).note(f"{none}.")

    return _told(command, environment)


def search_chats(environment: Environment, words: str, *, limit: int, json: bool = False) -> ExitCode:
    """Print one line a message: id of its conversation, time, who, title, text around; or a JSON array."""

    def command(store: Store) -> None:
        hits = store.search(words, limit)
        if json:
            objects = [
                {
                    "chat_id": hit.chat_id,
                    "node_id": hit.node_id,
                    "title": hit.title,
                    "role": hit.role.value,
                    "snippet": hit.snippet,
                    "when": _utc(hit.when),
                }
                for hit in hits
            ]
            Stdout(environment).write(as_json(objects) + "\n")
            return
        lines = [
            (hit.chat_id, _when(hit.when, environment), hit.role.value, _short(hit.title, environment), hit.snippet)
            for hit in hits
        ]
        _print_table(environment, lines)
        if not hits:
            Diagnostics(environment).note("no message has these words.")

    return _told(command, environment)


def show_chat(environment: Environment, chat_id: str, *, json: bool = False) -> ExitCode:
    """Print the current branch of a conversation; or all of it as a JSON object."""

    def command(store: Store) -> None:
        from specchat.chat.export import tree

        if json:
            Stdout(environment).write(as_json(tree(store, chat_id)) + "\n")
            return
        chat = store.chat(chat_id)
        stdout = Stdout(environment)
        stdout.write(_heading(chat.title or "Untitled", environment) + "\n")
        if chat.system:
            stdout.write(f"\n{_heading('System', environment)}\n{visible(chat.system).strip()}\n")
        for node in store.thread(chat.id):
            stdout.write(_as_shown(node, environment))

    return _told(command, environment)


def _as_shown(node: Node, environment: Environment) -> str:
    from specchat.chat.export import statistics_line

    answers = node.role is Role.ASSISTANT
    who = "You" if node.role is Role.USER else node.model or node.role.value.capitalize()
    parts = [f"\n{_heading(who, environment)}"]
    if node.reasoning.strip():
        parts.append(_dimmed(visible(node.reasoning).strip(), environment))
    parts += [visible(node.text).strip()] if node.text.strip() else []
    parts += [_dimmed(one_line(statistics_line(node.statistics, node.finish_reason)), environment)] if answers else []
    return "\n".join(parts) + "\n"


def export_chat(
    environment: Environment, chat_id: str, file: Path | None, *, json: bool, replace: bool = False
) -> ExitCode:
    """Write a conversation to `file`, None for stdout, as Markdown or JSON."""

    def command(store: Store) -> None:
        from specchat.chat import export

        text = export.json_text(store, chat_id) if json else export.markdown(store, chat_id)
        if file is None or str(file) == "-":
            Stdout(environment).write(text)
            return
        _save(text, file, replace=replace)

    return _told(command, environment)


def _save(text: str, file: Path, *, replace: bool) -> None:
    try:
        with file.open("w" if replace else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"There is already a file {file}. Replace it with --force, or name another.") from None
    except OSError as error:
        sentence = f"The conversation can't be written to {file}: {error.strerror}."
        raise (DoesNotFit if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError)(sentence) from None


def remove_chats(environment: Environment, chosen: Sequence[str]) -> ExitCode:
    """Delete conversations and what they contributed to drafting; all are found before the first is deleted."""

    def command(store: Store) -> None:
        from specchat.chat.forgetting import forget
        from specchat.chat.session import past_text_directory

        for chat in {one.id: one for one in map(store.chat, chosen)}.values():
            forget(store, chat.id, past_text_directory())
            Diagnostics(environment).note(f"deleted {chat.title or chat.id}.")
        store.overwrite_deleted()

    return _told(command, environment)


def _print_table(environment: Environment, lines: Sequence[tuple[str, ...]]) -> None:
    """Tabs in a pipe; on a terminal aligned columns and ids cut to what is enough to name one."""
    cells = [tuple(map(one_line, line)) for line in lines]
    if environment.stdout_is_terminal:
        short = [(line[0][:_ID_SHOWN], *line[1:]) for line in cells]
        widths = [max(map(cell_len, column)) for column in zip(*short, strict=True)]
        # The last column ends the line and needs no filling.
        rows = ["  ".join([*map(set_cell_size, line[:-1], widths), line[-1]]) for line in short]
    else:
        rows = ["\t".join(line) for line in cells]
    if rows:
        Stdout(environment).write("".join(f"{row}\n" for row in rows))


def _short(title: str, environment: Environment) -> str:
    cut = 32
    return title if not environment.stdout_is_terminal or len(title) <= cut else title[: cut - 1] + "…"


def _heading(text: str, environment: Environment) -> str:
    line = one_line(text)
    return f"{_BOLD}{line}{_PLAIN}" if _styled(environment) else f"{line}:"


def _dimmed(text: str, environment: Environment) -> str:
    return f"{_DIM}{text}{_PLAIN}" if _styled(environment) else text


def _styled(environment: Environment) -> bool:
    variables = environment.variables
    return environment.stdout_is_terminal and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"


def _when(moment: float, environment: Environment) -> str:
    """Local time to the minute for people, UTC with its offset for programs."""
    if not environment.stdout_is_terminal:
        return _utc(moment)
    return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
