"""A target that a head can be trained for in seconds, and a head of random weights for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specchat.heads.kinds import WeightType
from specchat.training.weights import Tensors, first_weights, head_file, head_shape, output_rows
from tests.tiny_model import write_model

DRAFT_TOKENS = 96


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of four layers."""
    return write_model(tmp_path_factory.mktemp("training") / "target.gguf", layers=4, spread=0.3)


@pytest.fixture(scope="session")
def random_head(target: Path) -> Path:
    """A head for it that drafts every third token, at random."""
    tensors, rng = Tensors(target), np.random.default_rng(3)
    shape = head_shape(tensors)
    ids = np.arange(1, shape.n_tokens, 3)[:DRAFT_TOKENS]
    weights = first_weights(tensors, shape, rng)
    weights["attn_norm"] = rng.uniform(0.5, 1.5, shape.width).astype(np.float32)
    for name in ("attn_q", "attn_k", "attn_v"):
        # Of the token as much as of the state, so that neither could be misread unseen.
        weights[name] = (rng.standard_normal(weights[name].shape) * 0.3).astype(np.float32)
    weights["fc"] = (rng.standard_normal((shape.width, 3 * shape.width)) * 0.2).astype(np.float32)
    weights["output"] = output_rows(tensors, ids)
    path = target.with_name("random-head.gguf")
    head_file("random", shape, weights, ids).write(path, WeightType.F32)
    return path
