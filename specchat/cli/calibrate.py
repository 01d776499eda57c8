"""`specchat calibrate`: fit a model to drafting for itself, and say what that is worth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from specchat.calibration.agreement import CalibrationCancelled
from specchat.calibration.early_exit import EarlyExitCalibration, calibrate_early_exit
from specchat.calibration.layer_skip import search_layer_set
from specchat.calibration.text import QUESTIONS
from specchat.catalogue.entries import Catalogue
from specchat.catalogue.locate import locate
from specchat.chat.calibration_text import chat_prompts, known_layer_sets
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.interrupts import Interrupts
from specchat.cli.output import Stdout
from specchat.drafters.layer_skip import LayerSkipCalibration
from specchat.drafters.method import Method
from specchat.llama.errors import LlamaError, PrefillCancelled
from specchat.llama.gguf import read_header

_ANSWERS = 16
"""Questions for the layer search: it reads their answers again for every candidate."""
_REDRAW_S = 0.2


def calibrate_model(
    environment: Environment, model: str, method: str, *, exits: Sequence[int], threads: int | None, gpu_layers: int
) -> ExitCode:
    """Calibrate, with progress on stderr, and print what was found. Raises what `exit_code_of` knows."""
    if exits and method != Method.EARLY_EXIT:
        raise UsageError("--exit names layers to leave after; it belongs to --method early-exit.")
    entry = Catalogue().find(model)
    target = locate(entry.target)
    layers = read_header(target).number("block_count")
    if layers and any(not 1 <= layer <= layers for layer in exits):
        raise UsageError(f"--exit must be one of the layers 1 to {layers} of {entry.name}.")
    diagnostics, interrupts = Diagnostics(environment), Interrupts()
    bar = _Progress(diagnostics, time.monotonic())
    diagnostics.note(
        f"calibrating {method} for {entry.name}: this takes some minutes. Ctrl-C stops it, with nothing kept."
    )
    prompts = chat_prompts(target, QUESTIONS)
    try:
        with interrupts.installed():
            if method == Method.EARLY_EXIT:
                found = calibrate_early_exit(
                    target, prompts, exits=exits, threads=threads, gpu_layers=gpu_layers,
                    progress=bar, cancelled=interrupts.arrived,
                )  # fmt: skip
                lines = _exits_told(found)
            else:
                lines = _layers_told(
                    search_layer_set(
                        target, prompts[:_ANSWERS], known=known_layer_sets(entry), threads=threads,
                        gpu_layers=gpu_layers, progress=bar, cancelled=interrupts.arrived,
                    )
                )  # fmt: skip
    except (CalibrationCancelled, PrefillCancelled):
        return interrupts.exit_code or ExitCode.INTERRUPTED
    except OSError as error:
        raise LlamaError(f"The calibration can't be kept: {error.strerror} ({error.filename}).") from None
    finally:
        diagnostics.end_progress()
    Stdout(environment).write("\n".join(lines) + "\n")
    return ExitCode.OK


@dataclass(slots=True)
class _Progress:
    """A line of progress, redrawn at most five times a second."""

    diagnostics: Diagnostics
    drawn: float

    def __call__(self, done: int, total: int, phrase: str) -> None:
        now = time.monotonic()
        if now - self.drawn >= _REDRAW_S:
            self.drawn = now
            self.diagnostics.progress(f"{done:,} of {total:,}: {phrase}" if total > 1 else phrase)


def _exits_told(found: EarlyExitCalibration) -> list[str]:
    lines = ["exit  α before  α after  draft step  best k  predicted speed"]
    plain = found.step_s[1]
    for exit_ in found.exits:
        lines.append(
            f"{exit_.layer:4d}  {exit_.alpha_before:8.2f}  {exit_.alpha_after:7.2f}  {exit_.draft_s / plain:6.2f} steps"
            f"  {exit_.depth:6d}  {exit_.speedup:10.2f} × plain"
        )
    best = next(exit_ for exit_ in found.exits if exit_.layer == found.exit_layer)
    lines.append(
        f"kept: exit after layer {found.exit_layer}, {found.extra_bytes / 1e6:.0f} MB beside the model; fitted on "
        f"{found.fitted_tokens:,} tokens, measured on {found.held_out_tokens:,} others."
    )
    return [*lines, *_does_not_pay(best.speedup)]


def _layers_told(found: LayerSkipCalibration) -> list[str]:
    lines = [
        f"dropped layers  {', '.join(map(str, found.layers))} (of 0 to {found.n_layer - 1})",
        f"α               {found.alpha:.2f} on {found.tokens:,} tokens",
        f"draft step      {found.cost_ratio:.2f} plain steps",
        f"predicted speed {found.speedup:.2f} × plain, at k = {found.depth}",
    ]
    return [*lines, *_does_not_pay(found.speedup)]


def _does_not_pay(speedup: float) -> list[str]:
    return [] if speedup > 1 else ["On this machine it does not pay for this model: plain decoding is faster."]
