"""A Medusa checkpoint as one GGUF: K heads of residual blocks and an output matrix (Cai et al. 2401.10774)."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specchat.heads.checkpoint import Checkpoint
from specchat.heads.errors import CheckpointUnusable
from specchat.heads.head_file import HeadFile, Matrix, Raw
from specchat.heads.safetensors import StoredTensor
from specchat.heads.settings import Settings
from specchat.heads.target import Target
from specchat.llama import medusa_file
from specchat.llama.head import HeadNotCuttable, OutputEnd

_BLOCK: Final = re.compile(r"(?:.*\.)?(\d+)\.(\d+)\.linear\.(weight|bias)")
_OUTPUT: Final = re.compile(r"(?:.*\.)?(\d+)\.(\d+)\.weight")
_LARGE_VOCABULARY: Final = 65_536
_DRAFTED: Final = 32_768
"""Rows kept of a large vocabulary unless asked otherwise: each head reads its whole matrix for one token."""


def medusa_head(checkpoint: Checkpoint, target: Target | None, draft_tokens: int | None = None) -> HeadFile:
    """What to write for `checkpoint`, with rows for the `draft_tokens` lowest ids: merges are learnt by frequency.

    None: all of a vocabulary of up to 65,536 tokens, 32,768 of a larger one. What ends an answer always stays. Raises
    CheckpointUnusable for tensors that are missing or of another width, and for another target's vocabulary.
    """
    return _Conversion(checkpoint, target).head(draft_tokens)


class _Conversion:
    def __init__(self, checkpoint: Checkpoint, target: Target | None) -> None:
        self._name = checkpoint.name
        self._target = target
        self._blocks: dict[tuple[int, int, str], StoredTensor] = {}
        self._outputs: dict[int, StoredTensor] = {}
        self._sort(checkpoint.tensors)
        self._n_heads = self._count_heads(Settings(checkpoint.name, checkpoint.config))
        self._n_blocks = 1 + max(block for _, block, _ in self._blocks)
        first = self._block(0, 0, "weight")
        self._width = target.width if target is not None else (first.shape or (0,))[-1]
        self._tokens = self._vocabulary()

    def _sort(self, tensors: dict[str, StoredTensor]) -> None:
        for name, tensor in tensors.items():
            block, output = _BLOCK.fullmatch(name), _OUTPUT.fullmatch(name)
            if block is not None:
                self._blocks[int(block[1]), int(block[2]), block[3]] = tensor
            elif output is not None:
                self._outputs[int(output[1])] = tensor
            else:
                raise CheckpointUnusable(f"{self._name} has a tensor {name}, which is of no Medusa head known here.")

    def _count_heads(self, settings: Settings) -> int:
        held = 1 + max((head for head, _, _ in self._blocks), default=-1)
        said = settings.number("medusa_num_heads", held)
        if said > held:
            raise CheckpointUnusable(
                f"The config.json of {self._name} promises {said} heads and its files hold {held}. All of them must be "
                "in its directory."
            )
        return said

    def _vocabulary(self) -> int:
        """Tokens of the target; rows of the output matrices past them are padding."""
        if self._target is not None:
            return self._target.tokens
        if not self._outputs:
            raise CheckpointUnusable(
                f"{self._name} has no output matrices of its own and shares its target's. Name it with --target."
            )
        return self._outputs[min(self._outputs)].shape[0]

    def head(self, draft_tokens: int | None) -> HeadFile:
        ids = self._ids(draft_tokens)
        head = HeadFile(
            medusa_file.ARCHITECTURE,
            {"general.name": self._name, **self._numbers()},
            ids=ids,
        )
        for i in range(self._n_heads):
            for block in range(self._n_blocks):
                head.matrices.append(self._block_matrix(i, block))
                head.vectors[medusa_file.block_bias(i, block)] = self._bias(i, block)
            if self._outputs:
                head.matrices.append(self._output_matrix(i, ids))
        if not self._outputs and self._target is not None:
            head.raws.append(self._matrix_of(self._target, ids))
        return head

    def _numbers(self) -> dict[str, int]:
        numbers = {
            medusa_file.WIDTH: self._width,
            medusa_file.TOKENS: self._tokens,
            medusa_file.HEADS: self._n_heads,
            medusa_file.BLOCKS: self._n_blocks,
        }
        return {f"{medusa_file.ARCHITECTURE}.{key}": number for key, number in numbers.items()}

    def _ids(self, draft_tokens: int | None) -> NDArray[np.int64] | None:
        if draft_tokens is None:
            draft_tokens = _DRAFTED if self._tokens > _LARGE_VOCABULARY else self._tokens
        if draft_tokens >= self._tokens:
            return None
        ends = np.array(self._target.ends if self._target is not None else (), dtype=np.int64)
        return np.union1d(np.arange(draft_tokens, dtype=np.int64), ends)

    def _block(self, head: int, block: int, part: str) -> StoredTensor:
        tensor = self._blocks.get((head, block, part))
        if tensor is None:
            raise self._lacks(f"{head}.{block}.linear.{part}")
        return tensor

    def _block_matrix(self, head: int, block: int) -> Matrix:
        tensor = self._block(head, block, "weight")
        self._require_shape(tensor, (self._width, self._width))
        return Matrix(medusa_file.block_weight(head, block), self._width, self._width, tensor.floats)

    def _bias(self, head: int, block: int) -> NDArray[np.float32]:
        tensor = self._block(head, block, "bias")
        self._require_shape(tensor, (self._width,))
        return np.ascontiguousarray(tensor.floats())

    def _output_matrix(self, head: int, ids: NDArray[np.int64] | None) -> Matrix:
        tensor = self._outputs.get(head)
        if tensor is None:
            raise self._lacks(f"{head}.{self._n_blocks}.weight")
        rows = max(tensor.shape[0], self._tokens) if len(tensor.shape) == 2 else self._tokens
        self._require_shape(tensor, (rows, self._width))
        name = medusa_file.output(head)
        if ids is None:
            return Matrix(name, self._tokens, self._width, tensor.floats)
        return Matrix(name, ids.size, self._width, lambda rows: tensor.floats(ids[rows]))

    def _matrix_of(self, target: Target, ids: NDArray[np.int64] | None) -> Raw:
        """The target's own output matrix, as it is stored there."""
        try:
            end = OutputEnd(target.path)
        except HeadNotCuttable:
            raise CheckpointUnusable(
                f"{self._name} shares the output matrix of its target, but {target.name} does more than a norm "
                "and a matrix at its end, so it can't be shared."
            ) from None
        rows = end.matrix[: self._tokens] if ids is None else end.matrix[ids]
        return Raw(medusa_file.SHARED_OUTPUT, rows, end.matrix_type)

    def _require_shape(self, tensor: StoredTensor, needed: tuple[int, ...]) -> None:
        if tensor.shape != needed:
            shown, wanted = (" × ".join(f"{size:,}" for size in shape) for shape in (tensor.shape, needed))
            of = f"for {self._target.name}" if self._target is not None else "beside its other tensors"
            raise CheckpointUnusable(f"{tensor.name} of {self._name} is {shown}; {of} it must be {wanted}.")

    def _lacks(self, tensor: str) -> CheckpointUnusable:
        return CheckpointUnusable(
            f"{self._name} lacks the tensor {tensor}. If it has more than one file, all must be in its directory."
        )
