"""A checkpoint as it is published: safetensors files and a config.json beside them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specchat.heads.errors import CheckpointUnusable
from specchat.heads.kinds import CheckpointKind
from specchat.heads.safetensors import StoredTensor, read_tensors

_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_MEDUSA_FILE: Final = "medusa_lm_head.safetensors"
_MEDUSA_BLOCK: Final = re.compile(r"(?:^|\.)\d+\.\d+\.linear\.weight$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors by name, and what config.json says."""

    name: str
    config: dict[str, Any]
    """Empty where there is no config.json."""
    tensors: dict[str, StoredTensor]

    @property
    def kind(self) -> CheckpointKind:
        """What its tensors are the weights of; raises CheckpointUnusable for no head known here."""
        if any(_MEDUSA_BLOCK.search(name) for name in self.tensors):
            return CheckpointKind.MEDUSA
        if "fc.weight" in self.tensors:
            return CheckpointKind.EAGLE3
        raise CheckpointUnusable(
            f"{self.name} holds no draft head known here: neither fc.weight of EAGLE-3 nor 0.0.linear.weight of Medusa "
            "is among its tensors. A whole model is drafted with as it is: --draft with its GGUF."
        )


def read_checkpoint(source: Path) -> Checkpoint:
    """Read the checkpoint in the directory or file `source`; of its weights only where they lie.

    Raises CheckpointUnusable, with a sentence, for what is none: pickles are refused, since reading one runs what is
    in it.
    """
    files = _files(source)
    tensors: dict[str, StoredTensor] = {}
    for file in files:
        for name, tensor in read_tensors(file).items():
            if name in tensors:
                raise CheckpointUnusable(
                    f"{source} holds {name} twice, in {tensors[name].path.name} and {file.name}. Name one of the files."
                )
            tensors[name] = tensor
    return Checkpoint(_name(source), _config(files[0].with_name("config.json")), tensors)


def _name(source: Path) -> str:
    path = source.resolve()
    # A file in a checkpoint's directory is called `model` or like its kind: the directory has the name.
    return path.name if path.is_dir() else path.parent.name or path.stem


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        found = sorted(source.glob("*.safetensors"))
        if found:
            return [file for file in found if file.name == _MEDUSA_FILE] or found
        pickles = sorted(file for file in source.iterdir() if file.suffix in _PICKLES)
        if pickles:
            raise _pickle(pickles[0])
        raise CheckpointUnusable(f"{source} holds no .safetensors file. Name the directory of a checkpoint.")
    if not source.exists():
        raise CheckpointUnusable(f"There is no file or directory {source}. Fetch the checkpoint first, then name it.")
    if source.suffix in _PICKLES:
        raise _pickle(source)
    if source.suffix == ".gguf":
        raise CheckpointUnusable(f"{source} is a GGUF file already: there is nothing to convert.")
    return [source]


def _pickle(path: Path) -> CheckpointUnusable:
    return CheckpointUnusable(
        f"{path} is a pickle, which can run any program when it is read, so it is not. Look for the same checkpoint as "
        "safetensors, or convert it where you trust it."
    )


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CheckpointUnusable(f"{path} can't be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise CheckpointUnusable(f"{path} is damaged: it is no JSON. Download the checkpoint again.") from None
    if not isinstance(config, dict):
        raise CheckpointUnusable(f"{path} holds no settings. Download the checkpoint again.")
    return config
