"""llama-cpp-python's own prompt lookup, as its users run it: what `specchat bench --peer` compares with.

The one place that uses the high-level `Llama` class. Nothing of specchat's is computed with it.
"""

from __future__ import annotations

import time
from pathlib import Path

_DRAFT_TOKENS = 10
"""The class's own default."""


class LibraryLookup:
    """A `Llama` with `LlamaPromptLookupDecoding`, flash attention off as ours on a CPU.

    It keeps the logits of every position: `context` rows of the vocabulary.
    """

    def __init__(self, target: Path, *, threads: int, gpu_layers: int, context: int) -> None:
        from llama_cpp import Llama
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        self._llama = Llama(
            str(target),
            n_ctx=context,
            n_threads=threads,
            n_threads_batch=threads,
            n_gpu_layers=gpu_layers,
            draft_model=LlamaPromptLookupDecoding(num_pred_tokens=_DRAFT_TOKENS),
            verbose=False,
        )

    def complete(self, ids: list[int], temperature: float, tokens: int) -> tuple[int, float, float]:
        """Answer the prompt `ids` with at most `tokens` tokens, without truncation.

        Returns the tokens after the first, the seconds they took, and the seconds to the first.
        """
        llama = self._llama
        # Otherwise it would find the last prompt in its cache.
        llama.reset()
        started = first = last = time.perf_counter()
        written = 0
        for token in llama.generate(ids, temp=temperature, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0):
            last = time.perf_counter()
            if not written:
                first = last
            written += 1
            if written >= tokens or token == llama.token_eos():
                break
        return max(0, written - 1), last - first, first - started
