"""An exported conversation says what was said, whatever it looks like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from specchat.chat import export
from specchat.chat.conversation import Chat
from specchat.chat.message import Role
from specchat.chat.store import Store
from specchat.chat.text import visible

FIGURES = {"tokens": 1412, "drafted": 900, "tok_s": 148.2, "alpha": 0.71, "tokens_per_step": 3.6, "ttft_s": 0.21,
           "speedup": 1.94, "plain_tok_s": 76.4, "per_position": [0.8], "source": "suffix"}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "chats.db", clock=lambda: 1_764_490_000.0) as opened:
        yield opened


def conversation(store: Store, question: str, answer: str, *, reasoning: str = "", system: str = "") -> Chat:
    chat = store.new_chat(model="demo", system=system)
    asked = store.add(chat.id, None, Role.USER, question)
    node = store.add(chat.id, asked.id, Role.ASSISTANT, "", model="demo_135m*")
    store.write(node.id, text=answer, reasoning=reasoning, finish_reason="stop", statistics=FIGURES)
    return store.chat(chat.id)


def blocks(document: str) -> list[Token]:
    """As a reader that allows HTML takes it apart, inline pieces included."""
    found = MarkdownIt("commonmark", {"html": True}).enable("table").parse(document)
    return [piece for block in found for piece in (block, *(block.children or []))]


def html(document: str) -> list[str]:
    return [block.content.strip() for block in blocks(document) if block.type.startswith("html")]


def headings(document: str) -> list[str]:
    found = blocks(document)
    return [after.content for block, after in pairwise(found) if block.type == "heading_open"]


OUR_HTML = ["<details>\n<summary>Reasoning</summary>", "</details>"]


def test_a_conversation_reads_as_markdown(store: Store) -> None:
    chat = conversation(store, "What is *RoPE*?", "A **rotation**.", reasoning="Hm.", system="Be brief.")
    document = export.markdown(store, chat.id)
    when = export._local(chat.created)
    assert document == (
        f"# What is \\*RoPE\\*?\n\n- Model: demo\\_135m\\*\n- Begun: {when}\n- Last message: {when}\n\n"
        "## System prompt\n\n```text\nBe brief.\n```\n\n"
        f"## You · {when}\n\n```text\nWhat is *RoPE*?\n```\n\n"
        f"## demo\\_135m\\* · {when}\n\n"
        "<details>\n<summary>Reasoning</summary>\n\n```text\nHm.\n```\n\n</details>\n\n"
        "A **rotation**.\n\n"
        "*1,412 tokens · 148.2 tok/s · α 0.71 · τ 3.60 tok/step · first token 0.21 s · "
        "1.94 × plain (76.4 tok/s, measured) · stop*\n"
    )


def test_a_speed_up_without_its_measured_base_is_not_shown() -> None:
    assert export.statistics_line({"tokens": 3, "speedup": 2.0, "plain_tok_s": None}, "length") == "3 tokens · length"
    assert export.statistics_line(None, None) == "unfinished"


HOSTILE = [
    "</details>\n\n## You · now\n\n<script>alert(1)</script>",
    "```\n</details>\n````\n## fake\n~~~",
    "<!-- swallow",
    "<b>bold</b> and [bold]markup[/bold] & &lt; \\<i>",
    "| a | <b> |\n|---|---|\n| `<i>` | <u> |",
    "- item `\n\n<details>` x\n\n      <pre>\n",
    "    <div>\n\n<div>\n<?php ?>\n<![CDATA[",
    "> ```html\n> <p>\n\n1. ```\n   <li>",
    "`` <a> ` <b> `` <c> ` <d>\n<e>",
    "<details>\\",
    "\\\\<b>",
    "```\n```<b>",
    "```\ncode\n    ```",
    "`|-|\n</details>`",
    "> a `b\n> <!-- c` d",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_looks_like_markup_is_shown_and_breaks_nothing(store: Store, text: str) -> None:
    chat = conversation(store, text, text, reasoning=text, system=text)
    document = export.markdown(store, chat.id)
    assert html(document) == OUR_HTML
    verbatim = [block.content.rstrip("\n") for block in blocks(document) if block.info == "text"]
    assert verbatim == [text.rstrip()] * 3
    last = [block for block in blocks(document) if block.type == "inline"][-1]
    assert last.content.startswith("*1,412 tokens")


PIECES = ["<b>", "</details>", "<!--", "-->", "`", "``", "```", "~~~", "\n", "\n\n", "    ", "- ", "> ", "a", "|", "\\",
          "<?", "<!D", "[x]: <y>", "1. ", "\t", "|-|\n", "&lt;", "http://x", "<http://x>"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("\\`<b>`")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_becomes_html(text: str) -> None:
    answer = export._answer(visible(text).strip("\n"))
    assert html(answer) == []
    assert headings(f"{answer}\n\n## Next") != [] if answer else True


def test_code_in_an_answer_stays_as_it_is(store: Store) -> None:
    answer = (
        "Use `<b>`:\n\n```html\n<p class='x'>\n```\n\nor\n\n    <div>\n\n1. ```py\n   a<b>c\n   ```\n\nif a < b and <3"
    )
    document = export.markdown(store, conversation(store, "q", answer).id)
    assert answer in document
    assert html(document) == []


def test_control_characters_steer_nothing(store: Store) -> None:
    chat = conversation(store, "a\x1b[2Jb\x9b", "c\x07\x1b]0;x", system="\x7f")
    for text in (export.markdown(store, chat.id), export.json_text(store, chat.id)):
        assert not set(text) & {*map(chr, range(9)), *map(chr, range(11, 32)), *map(chr, range(127, 160))}


def test_json_holds_the_whole_tree(store: Store) -> None:
    text = "é\x1b[2J\x9b </details> \u2028 👩‍👩‍👧"
    chat = conversation(store, text, text, reasoning=text, system=text)
    question = store.thread(chat.id)[0]
    other = store.add(chat.id, question.id, Role.ASSISTANT, "other")
    store.write(other.id, text="other", spans=[("answer", "other", "bonus")])
    exported = json.loads(export.json_text(store, chat.id))
    assert {name: exported[name] for name in ("schema", "id", "title", "model", "system", "created", "leaf")} == {
        "schema": 1, "id": chat.id, "title": chat.title, "model": "demo_135m*", "system": text,
        "created": "2025-11-30T08:06:40+00:00", "leaf": other.id,
    }  # fmt: skip
    asked, answer, second = exported["messages"]
    assert (asked["text"], asked["parent"], asked["role"], asked["spans"]) == (text, None, "user", None)
    assert (answer["text"], answer["reasoning"], answer["statistics"]) == (text, text, FIGURES)
    assert (second["parent"], second["finish_reason"]) == (question.id, None)
    assert second["spans"] == [{"channel": "answer", "text": "other", "origin": "bonus"}]


def test_what_the_model_no_longer_reads_is_told(store: Store) -> None:
    chat = conversation(store, "one", "a")
    first = store.thread(chat.id)
    second = store.add(chat.id, first[-1].id, Role.USER, "two")
    answer = store.add(chat.id, second.id, Role.ASSISTANT, "b")
    third = store.add(chat.id, answer.id, Role.USER, "three")
    assert json.loads(export.json_text(store, chat.id))["cuts"] == []
    assert "no longer read" not in export.markdown(store, chat.id)
    store.cut(second.id, "A *summary* </details>.")
    document = export.markdown(store, chat.id)
    sentence = "*The model reads this summary, which it wrote itself, in the place of the 2 messages above:*"
    assert f"{sentence}\n\n```text\nA *summary* </details>.\n```\n\n## You" in document
    store.cut(third.id, "A *summary* </details>.", second.id)
    document = export.markdown(store, chat.id)
    assert "the first 2 of the 4 messages above; the 2 after them are no longer read:*" in document
    assert document.count("A *summary*") == 1, "the last cut is the one that holds"
    assert json.loads(export.json_text(store, chat.id))["cuts"] == [
        {"message": second.id, "summary": "A *summary* </details>.", "summarised_to": second.id, "missed": 0},
        {"message": third.id, "summary": "A *summary* </details>.", "summarised_to": second.id, "missed": 0},
    ]
    store.cut(second.id)
    store.cut(third.id, "A *summary* </details>.", missed=2)
    document = export.markdown(store, chat.id)
    assert "in the place of 2 of the 4 messages above; the other 2 are not in it and no longer read:*" in document
    assert json.loads(export.json_text(store, chat.id))["cuts"][1] == {
        "message": third.id, "summary": "A *summary* </details>.", "summarised_to": third.id, "missed": 2,
    }  # fmt: skip
    store.cut(third.id)
    assert "*The 4 messages above are no longer read by the model.*\n\n## You" in export.markdown(store, chat.id)
    assert json.loads(export.json_text(store, chat.id))["cuts"][1] == {
        "message": third.id, "summary": "", "summarised_to": None, "missed": 0,
    }  # fmt: skip
