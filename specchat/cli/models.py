"""`specchat models`: which verbs and options there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specchat.cli import completion
from specchat.cli.environment import Environment
from specchat.cli.names import KVName
from specchat.heads.kinds import CheckpointKind, WeightType

models = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What there is, what is here, what fits. ID: a catalogue id, hf:user/repo[:file or quant] or a path.",
)

_Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=completion.models,
        help="Catalogue id, hf:user/repo[:file or quant], or a path.",
    ),
]
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
    draft: Annotated[
        str | None,
        typer.Option("-d", "--draft", autocompletion=completion.drafts, help="Another draft model; 'none' for none."),
    ] = None,
    gpu_layers: Annotated[int, typer.Option("--gpu-layers", min=-1, help="Layers on the GPU; -1: all.")] = -1,
    draft_tokens: Annotated[
        int | None, typer.Option("-k", "--draft-tokens", min=0, max=64, metavar="N", help="Drafted tokens a step.")
    ] = None,
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
            gpu_layers=gpu_layers, draft_tokens=draft_tokens, as_json=as_json, offline=offline, quiet=quiet,
        )
    )  # fmt: skip


@models.command("convert")
def convert_command(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Directory or .safetensors file of an EAGLE-3 or Medusa head.")
    ],
    target: Annotated[
        str | None, typer.Option("--target", metavar="ID", help="The model it drafts for: catalogue id or path.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The GGUF to write [named after SOURCE].")
    ] = None,
    kind: Annotated[CheckpointKind | None, typer.Option("--kind", help="What it is [as its tensors say].")] = None,
    weight_type: Annotated[WeightType, typer.Option("--type", help="Type of its matrices.")] = WeightType.Q8_0,
    draft_vocab: Annotated[
        int | None,
        typer.Option("--draft-vocab", min=1, metavar="N", help="Medusa: draft only the N most frequent tokens."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    quiet: _Quiet = False,
) -> None:
    """Convert a trained draft head (EAGLE-3 or Medusa, safetensors) to a GGUF that --draft takes."""
    from specchat.cli.convert import Conversion, convert_head

    environment: Environment = context.obj
    conversion = Conversion(source, target, output, kind, weight_type, draft_vocab, force)
    raise typer.Exit(convert_head(environment, conversion, quiet=quiet))
