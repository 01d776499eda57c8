"""A tiny target with a trained head of random weights, and an engine's part in keeping the two together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specchat.drafters.heads.drafter import AssistantDrafter, HeadDrafter
from specchat.drafters.heads.pairing import ASSISTANT
from specchat.drafters.heads.rows import States, TargetRows
from specchat.drafters.method import Method
from specchat.drafters.prefix import keep_common_prefix
from specchat.llama import dflash_file
from specchat.llama.chained_heads import ChainedHeadsContext
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.dflash import DFlashContext
from specchat.llama.model import Model
from specchat.llama.trained_head import EAGLE3_WIRING, NEXTN_WIRING, AssistantContext, HeadContext, HeadModel
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler

LAYERS = (1, 2, 3)


def sampler() -> Sampler:
    """Coupled draws depend on the position alone, so that two drafters can be compared."""
    return Sampler(SamplingParams(temperature=0.8, repeat_penalty=1.2), acceptance_rule(AcceptanceMode.COUPLED, 5))


class Rig:
    """A target, its head and the drafter; `capacity` rows of the target's can wait to be read."""

    def __init__(
        self,
        target: Model,
        head: Model,
        method: Method,
        *,
        n_batch: int = 16,
        capacity: int = 17,
        leaves: int = 1,
    ) -> None:
        eagle = method is not Method.MTP
        self.target = Context(
            target,
            ContextParams(
                n_ctx=192,
                n_outputs_max=8,
                threads=1,
                n_batch=n_batch,
                n_seq_max=leaves,
                n_rs_seq=8 if target.recurrent else 0,
                layer_inputs=LAYERS if eagle else (),
                nextn=not eagle,
            ),
        )
        shares_cache = head.header.architecture == ASSISTANT
        blocks = head.header.architecture == dflash_file.ARCHITECTURE
        if shares_cache:
            self.head: HeadContext = AssistantContext(head, self.target)
        elif blocks:
            self.head = DFlashContext(head, self.target)
        elif head.header.n_nextn > 1:
            self.head = ChainedHeadsContext(head, self.target)
        else:
            self.head = HeadContext(head, self.target, EAGLE3_WIRING if eagle else NEXTN_WIRING)
        kind = AssistantDrafter if shares_cache else HeadDrafter
        self.drafter = kind(
            self.head,
            TargetRows(self.head.n_features, capacity, self._copy),
            "head",
            lambda _token: False,
            method=method,
            leaves=leaves,
        )
        self.target.watch(self.drafter.take_pass)

    def _copy(self, rows: States) -> None:
        if self.target.params.layer_inputs:
            np.concatenate([self.target.layer_input(layer) for layer in LAYERS], axis=1, out=rows)
        else:
            rows[:] = self.target.nextn_rows()

    def read(self, ids: Sequence[int]) -> None:
        """Let the target hold all of `ids` but the last, as the engine does before an answer."""
        keep_common_prefix(self.target, ids, limit=min(len(ids) - 1, self.drafter.keeps(ids)))
        self.target.prefill(ids[len(self.target.tokens) : -1])

    def begin(self, ids: Sequence[int]) -> None:
        """The beginning of a turn."""
        self.read(ids)
        self.drafter.begin(ids, sampler())

    def verify(self, ids: Sequence[int], drafted: Sequence[int], kept: int) -> None:
        """The target's pass over a draft after `ids`, and its taking back all but `kept` of it."""
        self.target.decode([ids[-1], *drafted])
        assert self.target.truncate(len(ids) + kept)

    def forget(self) -> None:
        """Everything, as if it were opened anew."""
        self.target.clear()
        self.head.clear()

    def close(self) -> None:
        self.head.close()
        self.target.close()


def eagle_rig(directory: Path, **options: int) -> Rig:
    """A rig with an EAGLE-3 head; the files are in `directory`."""
    return Rig(Model(directory / "tiny.gguf"), HeadModel(directory / "eagle.gguf"), Method.EAGLE, **options)


def parallel_rig(directory: Path, **options: int) -> Rig:
    """A rig with an EAGLE-3 head that drafts all tokens in one pass."""
    return Rig(Model(directory / "tiny.gguf"), HeadModel(directory / "parallel.gguf"), Method.P_EAGLE, **options)


def nextn_rig(directory: Path, **options: int) -> Rig:
    """A rig with a NextN layer in the file of a hybrid model."""
    model = Model(directory / "hybrid.gguf", load_mtp=True)
    return Rig(model, model, Method.MTP, **options)


def chained_rig(directory: Path, **options: int) -> Rig:
    """A rig with three NextN layers in the file of a model with sliding windows."""
    model = Model(directory / "chained.gguf", load_mtp=True)
    return Rig(model, model, Method.MTP, **options)


def assistant_rig(directory: Path, **options: int) -> Rig:
    """A rig with a head that looks at the target's cache."""
    return Rig(Model(directory / "gemma4.gguf"), HeadModel(directory / "assistant.gguf"), Method.MTP, **options)


def dflash_rig(directory: Path, **options: int) -> Rig:
    """A rig with a DFlash head, which drafts a block in one pass."""
    return Rig(Model(directory / "tiny.gguf"), HeadModel(directory / "dflash.gguf"), Method.DFLASH, **options)


RIGS = {
    "eagle": eagle_rig,
    "p-eagle": parallel_rig,
    "dflash": dflash_rig,
    "mtp": nextn_rig,
    "chained": chained_rig,
    "assistant": assistant_rig,
}
