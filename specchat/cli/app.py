"""The command line: which options there are."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Annotated

import typer

from specchat import __version__
from specchat.cli import completion
from specchat.cli.chats import chats
from specchat.cli.default_command import ASK, AskByDefault, AskCommand
from specchat.cli.environment import Environment
from specchat.cli.examples import show_examples
from specchat.cli.exit_codes import ExitCode
from specchat.cli.models import models
from specchat.cli.names import CalibratedName, KVName, Thinking
from specchat.cli.rest import rest
from specchat.drafters.method import Method
from specchat.speculation.mode import AcceptanceMode

app = typer.Typer(
    cls=AskByDefault,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Model = Annotated[
    str | None,
    typer.Argument(autocompletion=completion.models, help="Catalogue id or .gguf file [the default model]."),
]
_Draft = Annotated[
    str | None, typer.Option("-d", "--draft", autocompletion=completion.drafts, help="Draft model: id or path.")
]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"specchat {__version__}")
        raise typer.Exit


@app.command(ASK, cls=AskCommand, hidden=True)
def ask(
    context: typer.Context,
    prompt: Annotated[list[str] | None, typer.Argument(help="What to ask; piped input goes before it.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            envvar="SPECCHAT_MODEL",
            autocompletion=completion.models,
            help="Catalogue id, hf:user/repo[:file or quant] or .gguf file [the best that is here and fits].",
        ),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--draft",
            autocompletion=completion.drafts,
            help="Draft model: id or path; 'none' for no draft model.",
        ),
    ] = None,
    method: Annotated[Method | None, typer.Option("--method", help="How drafts are made [auto].")] = None,
    draft_tokens: Annotated[
        str | None,
        typer.Option("-k", "--draft-tokens", metavar="N", help="Tokens drafted a step, 0 to 64 or auto [auto]."),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Let a trained head draft trees, not chains; they round differently.")
    ] = False,
    accept: Annotated[
        AcceptanceMode | None,
        typer.Option("--accept", help="Acceptance rule [exact; coupled with --seed]. typical is lossy."),
    ] = None,
    system: Annotated[str | None, typer.Option("-s", "--system", help="System prompt.")] = None,
    file: Annotated[
        list[Path] | None, typer.Option("-f", "--file", help="Text file to put before the prompt (repeatable).")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("-n", "--max-tokens", metavar="N", help="Longest answer, in tokens.")
    ] = None,
    ctx: Annotated[int | None, typer.Option("--ctx", metavar="N", help="Context size, in tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the most likely token [0.8].")] = None,
    top_k: Annotated[int | None, typer.Option(help="Keep the k most likely tokens; 0: all [40].")] = None,
    top_p: Annotated[float | None, typer.Option(help="Keep the likeliest tokens of this mass; 1: all [0.95].")] = None,
    min_p: Annotated[float | None, typer.Option(help="Least probability beside the likeliest; 0: all [0.05].")] = None,
    repeat_penalty: Annotated[float | None, typer.Option(help="Against recent tokens; 1: off [1].")] = None,
    presence_penalty: Annotated[float | None, typer.Option(help="Once for recent tokens; 0: off [0].")] = None,
    frequency_penalty: Annotated[float | None, typer.Option(help="Per recent occurrence; 0: off [0].")] = None,
    logit_bias: Annotated[
        list[str] | None, typer.Option(metavar="ID=BIAS", help="Add BIAS to a token's logit (repeatable).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Fixes the text, whatever drafts (selects --accept coupled).")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End the answer before this text (repeatable).")] = None,
    think: Annotated[Thinking, typer.Option(help="Whether a reasoning model reasons first.")] = Thinking.AUTO,
    threads: Annotated[int | None, typer.Option(help="Compute threads [physical cores].")] = None,
    gpu_layers: Annotated[int, typer.Option(help="Layers on the GPU; -1: all.")] = -1,
    kv: Annotated[KVName, typer.Option(help="KV cache type.")] = KVName.F16,
    draft_kv: Annotated[KVName, typer.Option("--draft-kv", help="KV cache type of the draft.")] = KVName.F16,
    resume: Annotated[
        bool, typer.Option("-c", "--continue", help="Go on with the conversation in which something was said last.")
    ] = False,
    chat: Annotated[
        str | None,
        typer.Option(
            "--chat",
            metavar="ID",
            autocompletion=completion.chats,
            help="Go on with this conversation (see specchat chats ls).",
        ),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("-i", "--interactive", help="Open the chat, with the prompt typed in.")
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Download without asking what is not here.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use no network.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Load also what does not fit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    as_jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON object an event.")] = False,
    no_stream: Annotated[bool, typer.Option("--no-stream", help="Print the answer when it is complete.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics to stderr, terminal or not.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Errors only on stderr.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Ask a local model, or open the chat. A draft types ahead of the model, and what it says stays its own."""
    from specchat.cli.front_end import means_the_chat, open_chat
    from specchat.cli.outcome import outcome

    environment: Environment = context.obj
    if means_the_chat(context.params, environment):
        raise typer.Exit(outcome(lambda: open_chat(context.params, environment), environment))
    # Only now: the rooms below import numpy and llama.cpp, which neither --help nor the chat's screen must wait for.
    from specchat.cli.run import run_question

    raise typer.Exit(run_question(context.params, environment))


def chat_alone(environment: Environment) -> ExitCode:
    """Open the chat as `specchat` without a word does, every option at its default; the exit code."""
    from specchat.cli.front_end import open_chat
    from specchat.cli.outcome import outcome

    options = {name: parameter.default for name, parameter in inspect.signature(ask).parameters.items()}
    options["model"] = os.environ.get("SPECCHAT_MODEL") or None
    return outcome(lambda: open_chat(options, environment), environment)


@app.command("calibrate")
def calibrate(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(autocompletion=completion.models, help="Catalogue id or path to a .gguf file.")
    ] = "demo",
    method: Annotated[
        CalibratedName, typer.Option("--method", help="What to fit to the model.")
    ] = CalibratedName.EARLY_EXIT,
    exits: Annotated[
        list[int] | None, typer.Option("--exit", metavar="E", help="Try leaving after layer E (repeatable).")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Compute threads [physical cores].")] = None,
    gpu_layers: Annotated[int, typer.Option(help="Layers on the GPU; -1: all.")] = -1,
) -> None:
    """Fit a model to drafting for itself: minutes of its own text, kept in the cache."""
    from specchat.cli.calibrate import calibrate_model
    from specchat.cli.outcome import outcome

    environment: Environment = context.obj

    raise typer.Exit(
        outcome(
            lambda: calibrate_model(
                environment, model, method.value, exits=exits or (), threads=threads, gpu_layers=gpu_layers
            ),
            environment,
        )
    )


@app.command("doctor")
def doctor_command(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Don't ask the hub whether it is there.")] = False,
) -> None:
    """Say what this machine has and what is missing; exit code 1 if no model can answer here."""
    from specchat.cli.doctor import doctor
    from specchat.cli.outcome import outcome

    environment: Environment = context.obj
    raise typer.Exit(outcome(lambda: doctor(environment, offline=offline, as_object=as_json), environment))


@app.command("audit")
def audit_command(
    context: typer.Context,
    model: _Model = None,
    draft: _Draft = None,
    method: Annotated[
        list[Method] | None, typer.Option("--method", help="Only this method (repeatable) [all].")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer prompts and samples.")] = False,
    threads: Annotated[int | None, typer.Option(help="Compute threads [physical cores].")] = None,
    gpu_layers: Annotated[int, typer.Option(help="Layers on the GPU; -1: all.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Prove on this machine that drafting changes nothing but the speed; exit code 1 if it does, or nothing drafted."""
    from specchat.bench.entrants import Model
    from specchat.cli.audit import audit_model
    from specchat.cli.outcome import outcome

    environment: Environment = context.obj
    chosen, methods = Model(model, draft, threads, gpu_layers), tuple(method or ())
    raise typer.Exit(
        outcome(lambda: audit_model(environment, chosen, methods=methods, quick=quick, as_object=as_json), environment)
    )


@app.command("bench")
def bench_command(
    context: typer.Context,
    model: _Model = None,
    draft: _Draft = None,
    method: Annotated[list[Method] | None, typer.Option("--method", help="Only this method (repeatable).")] = None,
    draft_tokens: Annotated[
        list[int] | None,
        typer.Option("-k", "--draft-tokens", min=1, max=64, metavar="N", help="Tokens drafted a step (repeatable)."),
    ] = None,
    temperature: Annotated[list[float] | None, typer.Option(help="Repeatable [0 and 0.8].")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", autocompletion=completion.classes, help="Kind of prompt (repeatable)."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("-n", "--max-tokens", min=1, metavar="N", help="An answer's.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, in which all take turns.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="At most 90 seconds; without it, 10 minutes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Everything: hours.")] = False,
    peer: Annotated[bool, typer.Option("--peer", help="Other programs on the same files, where installed.")] = False,
    synthetic_alpha: Annotated[
        float | None, typer.Option(metavar="A", help="Draft with an oracle that is right so often.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Compute threads [physical cores].")] = None,
    gpu_layers: Annotated[int, typer.Option(help="Layers on the GPU; -1: all.")] = -1,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures; - is stdout.")
    ] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw them: .png or .svg.")] = None,
) -> None:
    """Measure what every method gains here over plain decoding, by kind of prompt and temperature."""
    from specchat.bench.entrants import Model
    from specchat.cli.bench import Choices, bench_model
    from specchat.cli.outcome import outcome

    environment: Environment = context.obj
    chosen = Choices(
        methods=tuple(method or ()), depths=tuple(draft_tokens or ()), temperatures=tuple(temperature or ()),
        kinds=tuple(kind or ()), tokens=max_tokens, rounds=rounds, quick=quick, full=full, peer=peer,
        synthetic_alpha=synthetic_alpha, json_file=json_file, plot_file=plot_file,
    )  # fmt: skip
    entrant = Model(model, draft, threads, gpu_layers)
    raise typer.Exit(outcome(lambda: bench_model(environment, entrant, chosen), environment))


@app.command("config")
def config(context: typer.Context) -> None:
    """Show where things lie and what is set."""
    from specchat.cli.config import show_config
    from specchat.cli.outcome import outcome

    environment: Environment = context.obj
    raise typer.Exit(outcome(lambda: show_config(environment), environment))


app.add_typer(rest, name="rest")
app.add_typer(models, name="models")
app.add_typer(chats, name="chats")
show_examples(app)
