"""What a calibration reads of a model: questions in its own template, and layer sets known to be good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specchat.catalogue.entries import CutFromTarget, Entry
from specchat.chat.message import Message, Role
from specchat.chat.prompt import PromptBuilder
from specchat.chat.template import ChatTemplate
from specchat.llama.gguf import read_header
from specchat.llama.vocab_only import vocabulary_of


def chat_prompts(target: Path, questions: Sequence[str]) -> list[list[int]]:
    """The token ids of `questions` as the model's own template lays them out; raises what opening a model raises."""
    source = read_header(target).metadata.get("tokenizer.chat_template")
    with vocabulary_of(target) as (vocab, _name):
        builder = PromptBuilder(ChatTemplate(source if isinstance(source, str) else None, vocab), vocab)
        return [builder.build([Message(Role.USER, question)]).token_ids for question in questions]


def known_layer_sets(entry: Entry) -> list[Sequence[int]]:
    """The layers that the catalogue says may be dropped: a search must not end below them."""
    return [entry.draft.drop_layers] if isinstance(entry.draft, CutFromTarget) else []
