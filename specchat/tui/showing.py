"""The state of the conversation as the words around it: header, status line, welcome."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from textual.content import Content

from specchat.chat.amounts import size
from specchat.chat.conversation import one_line
from specchat.tui.aside import Aside
from specchat.tui.completion import hint
from specchat.tui.engine_state import Phase
from specchat.tui.header import HeaderFacts
from specchat.tui.keymap import Keys, shown
from specchat.tui.panel.reasons import Choice
from specchat.tui.shelf import Download, DownloadState
from specchat.tui.talk import Talk
from specchat.tui.wording import draft_words

_WAYS: Final = (("help", "keys and commands"), ("model", "models"), ("chats", "past conversations"))


def header_facts(talk: Talk) -> HeaderFacts:
    """What the header says."""
    engine, loaded = talk.engine, talk.engine.loaded
    if loaded is None:
        return HeaderFacts(state=engine.stage or ("no model is open" if engine.phase is Phase.FAILED else ""))
    return HeaderFacts(
        model=one_line(loaded.name),
        draft=_short_name(loaded.draft) if loaded.draft else "",
        method=one_line(loaded.method),
        plain_next=not talk.speculate_next,
        memory_name="memory" if loaded.device.upper() in ("", "CPU") else "VRAM",
        memory_used=engine.used_bytes,
        memory_free=engine.free_bytes,
        context_used=engine.context_used,
        context=loaded.context,
    )


def _short_name(file: str) -> str:
    words = draft_words(PurePath(file).name)
    return words.partition(",")[0].removesuffix(".gguf")


def choice_of(talk: Talk) -> Choice:
    """What the user chose of drafting, for the panel."""
    loaded, load, writing = talk.engine.loaded, talk.engine.load, talk.writing
    speculate = writing.speculate if writing is not None else (talk.history[-1][1] if talk.history else True)
    return Choice(loaded.method if loaded else "", load.draft_tokens if load else None, speculate)


def status_words(talk: Talk, keys: Keys, downloads: Mapping[str, Download], typed: str = "") -> str:
    """What happens now, or nothing; while a slash command is typed, which there are."""
    commands = hint(typed)
    parts = [commands] if commands else []
    if talk.loading:
        parts.append(f"{talk.engine.stage} …")
        if not talk.asking:
            parts.append("write meanwhile: it is sent once the model is open")
    if talk.asking:
        parts.append("your question waits for the model" if talk.engine.loaded is None else "your question waits")
    if talk.aside is not None:
        parts.append(_aside_words(talk.aside, keys))
    if talk.writing is not None:
        parts.append(_writing_words(talk, keys))
    if talk.waiting:
        parts.append(f"{len(talk.waiting)} more to ask" if len(talk.waiting) > 1 else "1 more question to ask")
    if talk.editing:
        parts.append(f"sending begins a branch · {_key(keys, 'stop')} leaves the branch as it is")
    parts += [_download_words(id, download) for id, download in downloads.items()]
    return "   ".join(parts)


def _writing_words(talk: Talk, keys: Keys) -> str:
    writing = talk.writing
    assert writing is not None
    if writing.stopping:
        return "stopping …"
    stop = f" · {_key(keys, 'stop')} stops" if keys["stop"] else ""
    if writing.figures.tokens:
        plainly = "" if writing.speculate else " plainly, to compare"
        return f"answering{plainly}{stop}"
    if writing.to_read > writing.read:
        return f"reading {writing.read:,} of {writing.to_read:,} tokens{stop}"
    return f"reading the question{stop}"


def _aside_words(aside: Aside, keys: Keys) -> str:
    if aside.stopping:
        return "stopping …"
    written = f", {aside.tokens} tok" if aside.tokens else ""
    return f"{aside.words}{written} · {_key(keys, 'stop')} stops"


def _key(keys: Keys, id: str) -> str:
    return shown(keys[id][0]) if keys[id] else "/stop"


def _download_words(id: str, download: Download) -> str:
    progress = download.progress()
    if progress.state is DownloadState.FAILED:
        return f"{id}: {progress.error}"
    if progress.state is DownloadState.DONE:
        return f"{id} is here"
    whole = f" of {size(progress.total)}" if progress.total else ""
    paused = ", paused" if progress.state is DownloadState.PAUSED else ""
    return f"fetching {id}: {size(progress.done)}{whole}{paused}"


def welcome(keys: Keys) -> Content:
    """What stands where a conversation will."""
    ways = [(keys[id][0], words) for id, words in _WAYS if keys[id]]
    parts = [Content.assemble((shown(key), "bold $primary"), (f" {words}", "$foreground-muted")) for key, words in ways]
    return Content("\n").join(
        [
            Content.styled("specchat", "bold $primary"),
            Content(""),
            Content("Ask something below."),
            Content.styled("Every word is the model's own; drafts only make it come sooner.", "$foreground-muted"),
            Content(""),
            Content("    ").join(parts),
        ]
    )
