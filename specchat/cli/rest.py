"""`specchat rest`: which verbs and options there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specchat.cli import completion
from specchat.cli.environment import Environment

rest = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Datastores of text for the rest method: drafts are what followed the same words there.",
)

_Model = Annotated[
    str,
    typer.Option(
        "-m",
        "--model",
        envvar="SPECCHAT_MODEL",
        autocompletion=completion.models,
        help="Whose vocabulary: catalogue id or .gguf file.",
    ),
]
# The rooms below import numpy and llama.cpp, which --help must not wait for: each verb imports when it runs.


@rest.command("build")
def build_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    paths: Annotated[list[Path], typer.Argument(help="Text and code files; directories are walked.")],
    model: _Model = "demo",
    force: Annotated[bool, typer.Option("--force", help="Replace a datastore of this name.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Errors only on stderr.")] = False,
) -> None:
    """Make a datastore from files, for one model's vocabulary."""
    from specchat.cli.datastores import build_store

    environment: Environment = context.obj
    raise typer.Exit(build_store(environment, name, paths, model=model, replace=force, quiet=quiet))


@rest.command("ls")
def list_command(context: typer.Context) -> None:
    """List the datastores: name, tokens, size, vocabulary, path."""
    from specchat.cli.datastores import list_stores

    environment: Environment = context.obj
    raise typer.Exit(list_stores(environment))


@rest.command("rm")
def remove_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(autocompletion=completion.datastores, help="Which one.")],
) -> None:
    """Delete a datastore."""
    from specchat.cli.datastores import remove_store

    environment: Environment = context.obj
    raise typer.Exit(remove_store(environment, name))


@rest.command("query")
def query_command(
    context: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="[NAME] TEXT", help="Where to look (default: all that fit) and for what.")
    ],
    model: _Model = "demo",
    tokens: Annotated[int, typer.Option("-n", "--tokens", min=1, max=64, help="Longest continuation.")] = 16,
) -> None:
    """Show what would be drafted after a text: the matched length, the occurrences and the continuation."""
    from specchat.cli.datastores import query_stores

    environment: Environment = context.obj
    raise typer.Exit(query_stores(environment, words, model=model, limit=tokens))
