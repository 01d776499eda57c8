"""Models whose needs are plain arithmetic, for tests of what is made of them: sizes of public models, in MiB."""

from __future__ import annotations

from dataclasses import dataclass

from specchat.fit.demand import Bytes, Demand, ModelDemand
from specchat.fit.request import ALL_LAYERS
from specchat.fit.verdict import Candidate, Plan
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError

MIB = 1 << 20
KIB = 1 << 10


@dataclass(frozen=True)
class Size:
    """Weights and compute in MiB, cache in KiB a token at f16."""

    weights: int
    cache: int
    compute: int

    def on_card(self, context: int, kind: KVType, share: float = 1.0) -> Bytes:
        per_token = self.cache if kind is KVType.F16 else self.cache * 17 / 32
        cells = -(-context // 256) * 256
        parts = (self.weights * MIB * share, per_token * KIB * cells * share)
        return Bytes(round(parts[0]), round(parts[1]), self.compute * MIB)


def candidate(
    name: str,
    target: Size,
    draft: Size | None = None,
    *,
    layers: int = 65,
    trained: int = 40_960,
    quantises: bool = True,
    on_device: bool = True,
) -> Candidate:
    """A model that takes what `target` and `draft` say; without `quantises` llama.cpp refuses a q8_0 cache."""

    def measure(plan: Plan) -> Demand:
        request = plan.request
        if not quantises and KVType.Q8_0 in (request.kv_type, request.draft_kv_type):
            raise LlamaError("can't have a quantised KV cache")
        on_gpu = layers if request.gpu_layers == ALL_LAYERS else min(request.gpu_layers, layers)
        ours = target.on_card(request.context, request.kv_type, on_gpu / layers)
        theirs = draft.on_card(request.context, request.draft_kv_type) if draft and plan.draft else None

        def placed(size: Bytes) -> ModelDemand:
            return ModelDemand(device=size) if on_device else ModelDemand(host=size)

        return Demand(placed(ours), placed(theirs) if theirs else None, request.context, False, on_device)

    return Candidate(name, measure, draft is not None, trained, layers)


DRAFT = Size(604, 112, 34)
QWEN3_32B = candidate("qwen3-32b", Size(18_424, 256, 212), DRAFT)
QWEN3_14B = candidate("qwen3-14b", Size(8_162, 160, 158), DRAFT, layers=41)
