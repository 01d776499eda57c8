"""What `specchat models convert` does."""

from __future__ import annotations

import errno
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.locate import locate
from specchat.chat.amounts import size
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.interrupts import Interrupts
from specchat.cli.outcome import outcome
from specchat.cli.output import Stdout
from specchat.heads.convert import Converted, convert
from specchat.heads.errors import ConversionStopped
from specchat.heads.kinds import CheckpointKind, WeightType
from specchat.llama.errors import DoesNotFit, LlamaError

_REDRAW_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is to be converted, and how."""

    source: Path
    target: str | None
    """The model that the head drafts for: a catalogue id or a path."""
    destination: Path | None
    kind: CheckpointKind | None
    weight_type: WeightType
    draft_tokens: int | None
    replace: bool


def convert_head(environment: Environment, conversion: Conversion, *, quiet: bool = False) -> ExitCode:
    """Write the GGUF of a head; its path goes to stdout, progress and how to draft with it to stderr."""
    diagnostics, interrupts = Diagnostics(environment, quiet=quiet), Interrupts()

    def command() -> ExitCode:
        try:
            with interrupts.installed():
                written = _converted(conversion, _Progress(diagnostics), interrupts)
        except ConversionStopped as stopped:
            diagnostics.note(str(stopped))
            return interrupts.exit_code or ExitCode.INTERRUPTED
        except BrokenPipeError:
            raise
        except OSError as error:
            kind = DoesNotFit if error.errno in (errno.ENOSPC, errno.EDQUOT) else LlamaError
            folder = (conversion.destination or Path("head.gguf")).parent
            raise kind(f"The head can't be written to {folder}: {error.strerror or error}.") from None
        finally:
            diagnostics.end_progress()
        diagnostics.note(_told(written, conversion.target))
        Stdout(environment).write(f"{written.path}\n")
        return ExitCode.OK

    return outcome(command, environment)


def _converted(conversion: Conversion, progress: _Progress, interrupts: Interrupts) -> Converted:
    named = conversion.target
    return convert(
        conversion.source,
        conversion.destination,
        target=None if named is None else locate(Catalogue().find(named).target, named),
        kind=conversion.kind,
        weight_type=conversion.weight_type,
        draft_tokens=conversion.draft_tokens,
        replace=conversion.replace,
        progress=progress,
        cancelled=interrupts.arrived,
    )


def _told(written: Converted, target: str | None) -> str:
    vocabulary = "all tokens" if written.draft_tokens is None else f"{written.draft_tokens:,} tokens"
    command = shlex.join(["specchat", *([] if target is None else ["-m", target]), "-d", str(written.path)])
    return f"{written.kind} head, {size(written.size)}, drafts {vocabulary}. Draft with it: {command}"


@dataclass(slots=True)
class _Progress:
    """A line of progress, redrawn at most five times a second."""

    diagnostics: Diagnostics
    drawn: float = field(default_factory=time.monotonic)

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.drawn >= _REDRAW_S:
            self.drawn = now
            self.diagnostics.progress(f"{size(done)} of {size(total)} written")
