"""What passes between the chat and its worker. Plain data: importing it loads neither numpy nor llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Load:
    """Open a model; one that is open is closed first. The choices are those of the command line, None its defaults."""

    model: str
    """A catalogue id, a repository or a path; empty: the best that is here and fits."""
    draft: str | None = None
    method: str | None = None
    draft_tokens: int | None = None
    tree: bool = False
    context: int | None = None
    threads: int | None = None
    gpu_layers: int = -1
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    force: bool = False
    """Load also what does not fit by the count of `fit`."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer the conversation `messages`, pairs of a role (system, user, assistant) and a text."""

    turn: int
    """Numbers the answer; every event about it carries the number."""
    chat: str
    """Names the conversation where its text is kept for drafting; empty: it is not kept."""
    messages: tuple[tuple[str, str], ...]
    sampling: Mapping[str, float] = field(default_factory=dict)
    """What the user chose over the model's defaults."""
    accept: str | None = None
    seed: int | None = None
    branch: int = 0
    """Which of several answers to the same messages: with a seed, each has other noise."""
    max_tokens: int | None = None
    thinking: bool | None = None
    stop_strings: tuple[str, ...] = ()
    speculate: bool = True
    """False: this answer is decoded plainly, to compare."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Say how much of a conversation fits; `messages` and `thinking` as in `Ask`."""

    number: int
    """Comes back with what was measured."""
    messages: tuple[tuple[str, str], ...]
    head: int = 0
    """How many messages at the beginning stay in any case."""
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop the answer that is being written, prefill included."""

    turn: int


@dataclass(frozen=True, slots=True)
class Close:
    """Free everything and end."""


Request = Load | Ask | Measure | Cancel | Close


@dataclass(frozen=True, slots=True)
class Loading:
    """A model is being opened: what happens now, as words for the user."""

    stage: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model is open."""

    model: str
    """Catalogue id."""
    name: str
    target: str
    """File name."""
    draft: str | None
    method: str
    context: int
    load_s: float
    thinks: bool
    """Whether the template can switch reasoning on and off."""
    notes: tuple[str, ...] = ()
    device: str = ""
    used_bytes: int = 0
    free_bytes: int = 0
    own_bytes: int = 0
    """What closing the model would free on the device that computes."""
    template: str = ""
    """How the model wants conversations laid out: Jinja, from its file."""


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """A model could not be opened: a sentence for the user; nothing is open now."""

    reason: str
    does_not_fit: bool = False
    not_here: bool = False
    """Its files, or for an empty name those of any that would do, are not on this machine."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """Tokens of the prompt that were read, of those to read."""

    turn: int
    read: int
    total: int


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text of one origin (accepted, corrected, bonus, plain) in one channel (answer, reasoning)."""

    channel: str
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What decoding did in this answer so far; the meanings are those of `speculation.metrics`."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    trees: int = 0
    alpha: float | None = None
    tokens_per_step: float | None = None
    tok_s: float | None = None
    plain_tok_s: float | None = None
    """Measured; without it there is no speed-up to speak of."""
    speedup: float | None = None
    per_position: tuple[float, ...] = ()
    depths: Mapping[int, int] = field(default_factory=dict)
    methods: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0
    """Tokens drafted in the last step."""
    source: str = ""
    """Who drafted last."""
    draft_s: float = 0.0
    verify_s: float = 0.0
    ttft_s: float | None = None
    prefill_tok_s: float | None = None
    prompt_tokens: int = 0
    context_used: int = 0
    used_bytes: int = 0
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """Text that became certain, in order, and the figures up to here; at most 20 such events a second."""

    turn: int
    spans: tuple[Span, ...]
    figures: Figures


@dataclass(frozen=True, slots=True)
class Finished:
    """An answer ended: stop, length, cancelled or error (then with a sentence)."""

    turn: int
    reason: str
    figures: Figures
    error: str | None = None
    context_full: bool = False
    """There was no room for it, or for more of it: a larger context would help."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How much of a conversation fits the context."""

    number: int
    tokens: int = 0
    """Of the whole prompt."""
    first: int | None = None
    """The question from which on it fills half of the context at most, so that there is room for a while; where that
    can't be, the last question, if it fits at all. None: it does not."""
    pieces: tuple[int, ...] = ()
    """Where the pieces end in which what comes before `first` can be summarised; empty where it can't."""
    crowded: bool = False
    """It can't be since a summary would leave no room, though it could be read for one."""
    error: str = ""
    """A sentence, where it could not be measured."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for the user, said once."""

    text: str


@dataclass(frozen=True, slots=True)
class Died:
    """The worker is gone: a sentence about why. Nothing is open; the next `Load` starts another."""

    reason: str
    turn: int | None = None
    """The answer that it was writing."""


Event = Loading | Loaded | LoadFailed | Prefill | Tokens | Finished | Measured | Note | Died
