"""`specchat chats`: which verbs and options there are."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from specchat.cli import completion
from specchat.cli.environment import Environment

chats = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Stored conversations. ID is an id or the beginning of one, as `chats ls` shows it.",
)

_Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", autocompletion=completion.chats, help="Which conversation: its id or the beginning of it."
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Limit = Annotated[int, typer.Option("-n", "--limit", min=1, metavar="N", help="At most so many.")]
# The rooms below import numpy, which --help must not wait for: each verb imports when it runs.


class ExportFormat(StrEnum):
    """What a conversation is exported as."""

    MARKDOWN = "md"
    JSON = "json"


@chats.command("ls")
def list_command(
    context: typer.Context,
    query: Annotated[list[str] | None, typer.Argument(metavar="[WORD]...", help="Only those with these words.")] = None,
    limit: _Limit = 50,
    as_json: _Json = False,
) -> None:
    """List conversations, the latest first: id, last message, messages, model, title."""
    from specchat.cli.conversations import list_chats

    environment: Environment = context.obj
    raise typer.Exit(list_chats(environment, " ".join(query or ()), limit=limit, json=as_json))


@chats.command("show")
def show_command(context: typer.Context, chat: _Id, as_json: _Json = False) -> None:
    """Print a conversation."""
    from specchat.cli.conversations import show_chat

    environment: Environment = context.obj
    raise typer.Exit(show_chat(environment, chat, json=as_json))


@chats.command("search")
def search_command(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="All must occur in a message.")],
    limit: _Limit = 20,
    as_json: _Json = False,
) -> None:
    """Find messages by their words, the newest first: id of the conversation, time, who, title, text around."""
    from specchat.cli.conversations import search_chats

    environment: Environment = context.obj
    raise typer.Exit(search_chats(environment, " ".join(words), limit=limit, json=as_json))


@chats.command("export")
def export_command(
    context: typer.Context,
    chat: _Id,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to; what it ends with names the format.")
    ] = None,
    form: Annotated[
        ExportFormat | None, typer.Option("--format", help="Markdown of the current branch, or JSON of all [md].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a conversation as Markdown or JSON."""
    from specchat.cli.conversations import export_chat

    environment: Environment = context.obj
    as_json = form is ExportFormat.JSON or (form is None and file is not None and file.suffix.lower() == ".json")
    raise typer.Exit(export_chat(environment, chat, file, json=as_json, replace=force))


@chats.command("rm")
def remove_command(
    context: typer.Context,
    chosen: Annotated[
        list[str], typer.Argument(metavar="ID...", autocompletion=completion.chats, help="Which conversations.")
    ],
) -> None:
    """Delete conversations, and what drafts remember of them."""
    from specchat.cli.conversations import remove_chats

    environment: Environment = context.obj
    raise typer.Exit(remove_chats(environment, chosen))
