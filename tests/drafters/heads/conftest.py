"""Files of trained heads with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assistant_models import write_assistant, write_gemma4
from tests.chained_models import write_chained_model
from tests.dflash_models import write_dflash_head
from tests.head_models import write_eagle_head, write_hybrid_model, write_nextn_sidecar
from tests.tiny_model import write_model


@pytest.fixture(scope="session")
def head_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a target and an EAGLE-3 head, and a hybrid target with a NextN layer inside and beside it."""
    directory = tmp_path_factory.mktemp("heads")
    tiny = write_model(directory / "tiny.gguf", layers=4)
    write_eagle_head(directory / "eagle.gguf", tiny, draft_vocab=100)
    write_eagle_head(directory / "parallel.gguf", tiny, draft_vocab=100, mask_token=2)
    write_dflash_head(directory / "dflash.gguf", tiny, draft_vocab=100)
    write_chained_model(directory / "chained.gguf")
    write_gemma4(directory / "gemma4.gguf")
    write_assistant(directory / "assistant.gguf")
    write_hybrid_model(directory / "hybrid.gguf")
    write_nextn_sidecar(directory / "sidecar.gguf")
    return directory
