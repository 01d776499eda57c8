"""`specchat models`: which verbs and options there are."""

from __future__ import annotations

from typing import Annotated

import typer

from specchat.cli.environment import Environment
from specchat.cli.names import KVName

models = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What there is, what is here, what fits. ID: a catalogue id, hf:user/repo[:file or quant] or a path.",
)

_Id = Annotated[str, typer.Argument(metavar="ID", help="Catalogue id, hf:user/repo[:file or quant], or a path.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Yes = Annotated[bool, typer.Option("-y", "--yes", help="Don't ask.")]
_Offline = Annotated[bool, typer.Option("--offline", help="Use no network.")]
_Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Errors only on stderr.")]
# The rooms below import numpy and llama.cpp, which --help must not wait for: each verb imports when it runs.


@models.command("ls")
def list_command(
    context: typer.Context,
    here: Annotated[bool, typer.Option("--here", help="Only those on this machine.")] = False,
    fit: Annotated[bool, typer.Option("--fit/--no-fit", help="Say what fits this machine.")] = True,
    as_json: _Json = False,
) -> None:
    """List the catalogue: id, size with draft, what drafts, whether it is here and whether it fits."""
    from specchat.cli.model_verbs import list_models

    environment: Environment = context.obj
    raise typer.Exit(list_models(environment, here=here, fit=fit, json=as_json))


@models.command("show")
def show_command(context: typer.Context, model: _Id, as_json: _Json = False) -> None:
    """Show all that the catalogue knows of a model."""
    from specchat.cli.model_verbs import show_model

    environment: Environment = context.obj
    raise typer.Exit(show_model(environment, model, json=as_json))


@models.command("pull")
def pull_command(
    context: typer.Context,
    model: _Id,
    yes: _Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Download also what does not fit this machine.")] = False,
    offline: _Offline = False,
    quiet: _Quiet = False,
) -> None:
    """Download a model and its draft; what was interrupted goes on where it stopped."""
    from specchat.cli.model_verbs import pull_model

    environment: Environment = context.obj
    raise typer.Exit(pull_model(environment, model, yes=yes, force=force, offline=offline, quiet=quiet))


@models.command("rm")
def remove_command(context: typer.Context, model: _Id, yes: _Yes = False) -> None:
    """Delete a model's files from the cache; a draft that other models use stays."""
    from specchat.cli.model_verbs import remove_model

    environment: Environment = context.obj
    raise typer.Exit(remove_model(environment, model, yes=yes))


@models.command("path")
def path_command(context: typer.Context, model: _Id) -> None:
    """Print where a model's file lies."""
    from specchat.cli.model_verbs import print_path

    environment: Environment = context.obj
    raise typer.Exit(print_path(environment, model))


@models.command("fit")
def fit_command(
    context: typer.Context,
    model: _Id,
    ctx: Annotated[int | None, typer.Option("--ctx", metavar="N", help="Context size, in tokens.")] = None,
    vram: Annotated[
        str | None, typer.Option("--vram", metavar="SIZE", help="Plan for a card that is not here, such as 24GiB.")
    ] = None,
    kv: Annotated[KVName, typer.Option("--kv", help="KV cache type of the target.")] = KVName.F16,
    draft_kv: Annotated[KVName, typer.Option("--draft-kv", help="KV cache type of the draft.")] = KVName.F16,
    draft: Annotated[str | None, typer.Option("-d", "--draft", help="Another draft model; 'none' for none.")] = None,
    gpu_layers: Annotated[int, typer.Option("--gpu-layers", min=-1, help="Layers on the GPU; -1: all.")] = -1,
    as_json: _Json = False,
    offline: _Offline = False,
    quiet: _Quiet = False,
) -> None:
    """Say whether a model, its draft, both caches and buffers fit, and what to change; exit code 4 if not."""
    from specchat.cli.models_fit import fit_model

    environment: Environment = context.obj
    raise typer.Exit(
        fit_model(
            environment, model, ctx=ctx, vram=vram, kv=kv.value, draft_kv=draft_kv.value, draft=draft,
            gpu_layers=gpu_layers, as_json=as_json, offline=offline, quiet=quiet,
        )
    )  # fmt: skip
