"""The hidden states that a trained head is fed with: whether they can be had, and what they take."""

from __future__ import annotations

from typing import Final

from specchat.catalogue.head_kind import HeadKind
from specchat.fit.demand import Bytes, ModelDemand
from specchat.fit.request import FitRequest
from specchat.llama.eagle3_file import N_TAPS

_F32: Final = 4


def heads_supported() -> bool:
    """Whether the installed llama.cpp hands out the hidden states that heads draft from."""
    from specchat.llama.hidden import HiddenStatesMissing, hidden_functions

    try:
        hidden_functions()
    except HiddenStatesMissing:
        return False
    return True


def target_rows(head: HeadKind | None, width: int, request: FitRequest, *, taps: int = N_TAPS) -> ModelDemand:
    """What a target of this width keeps of each pass for its head, which reads `taps` of its layers.

    The tapped inputs of layers (f32) stay in the graph's buffer until the pass ends (but the last layer's, which lies
    there anyway), and rows for a whole batch are handed out on the host: those, or the last layer's output for an MTP
    head.
    """
    if head in (HeadKind.EAGLE, HeadKind.DFLASH):
        tapped = taps * width
        return _rows(tapped * min(request.n_ubatch, request.context), tapped, request.n_batch, request)
    return _rows(0, width, request.n_batch, request) if head is HeadKind.MTP else ModelDemand()


def head_rows(head: HeadKind | None, width: int, request: FitRequest) -> ModelDemand:
    """What a head hands out on the host: its own states of this width, from which it drafts on."""
    drafts_on = head in (HeadKind.MTP, HeadKind.EAGLE)
    return _rows(0, width, request.draft_ubatch, request) if drafts_on else ModelDemand()


def _rows(in_graph: int, width: int, batch: int, request: FitRequest) -> ModelDemand:
    """`in_graph`: elements; `width`: elements of each of the rows that a `batch` hands out."""
    graph, out = in_graph * _F32, width * min(batch, request.context) * _F32
    if request.on_device:
        return ModelDemand(device=Bytes(rows=graph), host=Bytes(rows=out))
    return ModelDemand(host=Bytes(rows=graph + out))
