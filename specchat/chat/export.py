"""A conversation as a document: Markdown to read, JSON to keep.

What was said survives as it was written. In Markdown, questions, system prompts and reasoning stand in code blocks; an
answer is Markdown itself, in which only HTML would vanish or swallow what follows, so that it is escaped there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from markdown_it import MarkdownIt

from specchat.chat.conversation import Node, one_line
from specchat.chat.message import Role
from specchat.chat.reading import Cut, about_unread, cut_in, unread, unsummarised
from specchat.chat.store import Store
from specchat.chat.text import visible

SCHEMA: Final = 1
_INLINE_MARKUP: Final = re.compile(r"[\\`*_{}\[\]<>#&|~!$]")
_CODE_SPAN: Final = re.compile(r"\\[\\`]|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
"""Or a sign that is escaped, so that it begins none."""
_LINE_OF_HTML: Final = re.compile(r"\n[ \t>]*(?=<)")
"""A line that begins so would end the paragraph and with it the code span; there a line end reads as a space."""
_CODE: Final = ("fence", "code_block")
_TAG: Final = re.compile(r"(\\*)<(?=[A-Za-z/!?])")
_FIGURES: Final = {
    "tokens": "{:,} tokens",
    "tok_s": "{:.1f} tok/s",
    "alpha": "α {:.2f}",
    "tokens_per_step": "τ {:.2f} tok/step",
    "ttft_s": "first token {:.2f} s",
}
# JSON escapes C0 itself; DEL and C1 would reach a terminal as they are.
_STEERING: Final = re.compile("[\x7f-\x9f]")


def markdown(store: Store, chat_id: str) -> str:
    """The current branch as Markdown; raises StoreError."""
    chat = store.chat(chat_id)
    parts = [
        f"# {_literal(chat.title or 'Untitled')}",
        f"- Model: {_literal(chat.model)}\n- Begun: {_local(chat.created)}\n- Last message: {_local(chat.updated)}",
    ]
    if chat.system:
        parts += ["## System prompt", _block(chat.system)]
    thread = store.thread(chat.id)
    ids = [node.id for node in thread]
    cut = cut_in(ids, store.cuts(chat.id))
    for node in thread:
        if cut is not None and cut.node_id == node.id:
            parts += _unread(ids, cut)
        parts += _message(node, chat.model)
    return visible("\n\n".join(parts)) + "\n"


def json_text(store: Store, chat_id: str) -> str:
    """The whole tree as JSON, every branch of it; raises StoreError."""
    text = json.dumps(tree(store, chat_id), ensure_ascii=False, allow_nan=False, indent=2)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def tree(store: Store, chat_id: str) -> dict[str, Any]:
    """The whole tree: `messages` in the order in which they were added, `leaf` the end of the current branch.

    `cuts` are the messages from which on the model reads the branches through them, since the context was full; of
    several in a branch the last one holds. `summary` is what it reads in the place of those before `summarised_to`,
    which is the message itself unless more was left out later; null and empty where there is no summary. It says
    nothing about `missed` of those, which had been left out before it was written.
    """
    chat = store.chat(chat_id)
    leaf = store.thread(chat.id, last=1)
    return {
        "schema": SCHEMA,
        "id": chat.id,
        "title": chat.title,
        "model": chat.model,
        "system": chat.system,
        "created": _utc(chat.created),
        "updated": _utc(chat.updated),
        "leaf": leaf[0].id if leaf else None,
        "messages": [_as_object(node) for node in store.nodes(chat.id)],
        "cuts": [
            {
                "message": cut.node_id,
                "summary": cut.summary,
                "summarised_to": (cut.summarised_to or cut.node_id) if cut.summary else None,
                "missed": cut.missed,
            }
            for cut in store.cuts(chat.id).values()
        ],
    }


def _as_object(node: Node) -> dict[str, Any]:
    spans = None
    if node.spans is not None:
        spans = [{"channel": channel, "text": text, "origin": origin} for channel, text, origin in node.spans]
    return {
        "id": node.id,
        "parent": node.parent,
        "role": node.role.value,
        "text": node.text,
        "reasoning": node.reasoning,
        "model": node.model,
        "created": _utc(node.created),
        "finish_reason": node.finish_reason,
        "statistics": node.statistics,
        "spans": spans,
    }


def statistics_line(statistics: Mapping[str, Any] | None, finish_reason: str | None) -> str:
    """The figures of an answer in one line, named as in `worker.messages.Figures`; those that are missing are left out.

    A speed-up stands beside the measured plain rate it is over, or not at all.
    """
    known = {name: value for name, value in (statistics or {}).items() if isinstance(value, int | float)}
    parts = [form.format(known[name]) for name, form in _FIGURES.items() if name in known]
    if known.get("drafted") and "speedup" in known and "plain_tok_s" in known:
        parts.append(f"{known['speedup']:.2f} × plain ({known['plain_tok_s']:.1f} tok/s, measured)")
    return " · ".join([*parts, finish_reason or "unfinished"])


def _message(node: Node, model: str) -> Iterator[str]:
    answers = node.role is Role.ASSISTANT
    who = _literal(node.model or model or "Answer") if answers else {Role.USER: "You"}.get(node.role, "System")
    yield f"## {who} · {_local(node.created)}"
    if not answers:
        yield _block(node.text)
        return
    if node.reasoning:
        yield f"<details>\n<summary>Reasoning</summary>\n\n{_block(node.reasoning)}\n\n</details>"
    if node.text.strip():
        yield _answer(visible(node.text).strip("\n"))
    yield f"*{_literal(statistics_line(node.statistics, node.finish_reason))}*"


def _unread(ids: Sequence[int], cut: Cut) -> Iterator[str]:
    words = about_unread(unread(ids, cut), unsummarised(ids, cut), summary=bool(cut.summary), missed=cut.missed)
    yield f"*{words[0].upper()}{words[1:]}{'' if cut.summary else '.'}*"
    if cut.summary:
        yield _block(cut.summary)


def _block(text: str) -> str:
    """A code block of text, whatever fences occur in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def _literal(text: str) -> str:
    """Text that is shown as it stands, in one line."""
    return _INLINE_MARKUP.sub(lambda sign: "\\" + sign[0], one_line(text))


def _answer(text: str) -> str:
    """Markdown whose HTML is shown instead of taken for HTML, and which ends what it begins."""
    lines = text.split("\n")
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    blocks = reader.parse(text)
    # A code span ends within its paragraph: lines of one paragraph are looked at together.
    regions = {block.map[0]: block for block in blocks if block.map and block.type in ("inline", *_CODE)}
    parts, position = [], 0
    while position < len(lines):
        block = regions.get(position)
        stop = max(block.map[1], position + 1) if block and block.map else position + 1
        piece = "\n".join(lines[position:stop])
        parts.append(piece if block and block.type in _CODE else _without_html(piece))
        position = stop
    # What follows an open code block would become part of it.
    if blocks and blocks[-1].type == "fence" and reader.parse(f"{text}\n\n# End")[-1].type != "heading_close":
        parts.append(blocks[-1].markup)
    return "\n".join(parts)


def _without_html(text: str) -> str:
    parts, position = [], 0
    for span in _CODE_SPAN.finditer(text):
        if span[1] is None:
            continue
        parts += [_escaped(text[position : span.start()]), _LINE_OF_HTML.sub(" ", span[0])]
        position = span.end()
    return "".join([*parts, _escaped(text[position:])])


def _escaped(text: str) -> str:
    # A sign that is escaped already would be freed by another backslash.
    return _TAG.sub(lambda tag: tag[1] + ("<" if len(tag[1]) % 2 else "\\<"), text)


def _local(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _utc(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds")
