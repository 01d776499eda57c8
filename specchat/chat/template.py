"""A model's own chat template: from messages to text whose template and content parts stay apart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import jinja2

from specchat.chat.errors import TemplateError, TemplateRefusal
from specchat.chat.marked_text import MarkedText, Origin
from specchat.chat.message import Message, Role
from specchat.chat.sandbox import ChatSandbox
from specchat.chat.segment import CONTENT, REASONING, Segment, segments_of
from specchat.chat.text import visible
from specchat.chat.vocabulary import Vocabulary
from specchat.chat.work_budget import WorkBudget

_T = TypeVar("_T")

# The largest published template known is 17 kB. No budget counts yet while compiling: 5 s and 250 MB for this much.
_MAX_SOURCE = 64 * 1024

_CHATML = """\
{%- for message in messages -%}
{{ '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
"""
_PLAIN = """\
{%- for message in messages -%}
{{ message.role ~ ':\n' ~ message.content ~ '\n\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'assistant:\n' }}{%- endif -%}
"""
_PLAIN_STOPS = (f"\n{Role.USER}:", f"\n{Role.SYSTEM}:")

# Names under which published templates ask whether to think first.
_THINKING_SWITCHES = ("enable_thinking", "thinking")


@dataclass(frozen=True)
class Rendered:
    """A conversation in the model's layout."""

    segments: tuple[Segment, ...]
    starts_in_reasoning: bool
    """The generation prompt has already opened the reasoning: the answer begins inside it."""
    system_folded: bool
    """The template takes no system message; its text went before the first user message."""

    @property
    def text(self) -> str:
        """Everything as one string, as the template printed it."""
        return "".join(segment.text for segment in self.segments)


class ChatTemplate:
    """The chat template of one model file, or a stand-in for a file that has none.

    Raises TemplateError for a template that can't be compiled.
    """

    def __init__(
        self,
        source: str | None,
        vocabulary: Vocabulary,
        *,
        reasoning_tag: str = "<think>",
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.note = ""
        """What the user should know about the layout; empty when the model's own template is used."""
        self.stop_strings: tuple[str, ...] = ()
        """Texts that end an answer in this layout although the model has no token for it."""
        if not source or not source.strip():
            source = self._stand_in(vocabulary)
        self._vocabulary = vocabulary
        self._reasoning_tag = reasoning_tag
        self._sandbox = ChatSandbox(now)
        # The sandbox counts one rendering at a time.
        self._lock = threading.Lock()
        self._template, expected = self._compile(source)
        self.has_thinking_switch = not expected.isdisjoint(_THINKING_SWITCHES)
        """Whether the template looks at `enable_thinking` at all."""

    def render(
        self,
        messages: Sequence[Message],
        *,
        enable_thinking: bool | None = None,
        add_generation_prompt: bool = True,
    ) -> Rendered:
        """Lay out a conversation; raises TemplateError when the template refuses it, fails or runs away.

        A template that refuses a system message, or silently drops it, gets its text before the first user message.
        """
        options: dict[str, Any] = {"add_generation_prompt": add_generation_prompt}
        if enable_thinking is not None:
            options |= dict.fromkeys(_THINKING_SWITCHES, enable_thinking)
        folded = _with_system_folded(messages)
        try:
            segments = self._segments(messages, options)
        except TemplateRefusal:
            if folded is None:
                raise
            segments = ()
        if folded is not None and not _speaks(segments, messages[0]):
            return self._rendered(self._segments(folded, options), add_generation_prompt, system_folded=True)
        return self._rendered(segments, add_generation_prompt, system_folded=False)

    def _rendered(self, segments: tuple[Segment, ...], add_generation_prompt: bool, *, system_folded: bool) -> Rendered:
        ending = segments[-1] if segments else Segment("")
        opens = not ending.is_content and ending.text.rstrip().endswith(self._reasoning_tag)
        return Rendered(segments, add_generation_prompt and opens, system_folded)

    def _segments(self, messages: Sequence[Message], options: dict[str, Any]) -> tuple[Segment, ...]:
        values = [_as_template_value(place, message) for place, message in enumerate(messages)]
        characters = sum(len(message.content) + len(message.reasoning) for message in messages)
        variables = {
            "messages": values,
            "bos_token": self._vocabulary.bos_text,
            "eos_token": self._vocabulary.eos_text,
            # Templates ask `tools is not none`, which holds for a name that was never given.
            "tools": None,
            "documents": None,
            **options,
        }
        with self._lock:
            self._sandbox.budget = WorkBudget(characters, len(messages))
            return self._guarded(lambda: segments_of(self._template.generate(variables), messages))

    def _compile(self, source: str) -> tuple[jinja2.Template, frozenset[str]]:
        if len(source) > _MAX_SOURCE:
            raise TemplateError(
                f"The model's chat template has {len(source)} characters, more than the {_MAX_SOURCE} that are read. "
                "Use another copy of this model."
            )
        return self._guarded(lambda: self._sandbox.compile_chat_template(source))

    @staticmethod
    def _guarded(work: Callable[[], _T]) -> _T:
        """Run the template's code; whatever it raises becomes one sentence."""
        try:
            return work()
        except TemplateError:
            raise
        except RecursionError:
            reason = "it nests or calls itself without end"
        except MemoryError:
            reason = "it needs more memory than there is"
        except jinja2.TemplateSyntaxError as error:
            reason = f"line {error.lineno} has an error: {_shown(error)}"
        except Exception as error:  # a template from a file can raise anything
            reason = f"it failed with {type(error).__name__}: {_shown(error)}"
        raise TemplateError(f"The model's chat template can't be used: {reason}. Use another copy of this model.")

    def _stand_in(self, vocabulary: Vocabulary) -> str:
        start = vocabulary.tokenize("<|im_start|>", add_special=False, parse_special=True)
        if len(start) == 1:
            self.note = "This model file has no chat template; ChatML is used, which its vocabulary knows."
            return _CHATML
        self.note = (
            "This model file has no chat template; a plain layout of names and texts is used. "
            "If it is a base model, it will continue texts rather than answer."
        )
        self.stop_strings = _PLAIN_STOPS
        return _PLAIN


def _as_template_value(place: int, message: Message) -> dict[str, str]:
    value = {
        "role": message.role.value,
        "content": MarkedText.whole(message.content, Origin(place, CONTENT)),
    }
    if message.reasoning:
        value["reasoning_content"] = MarkedText.whole(message.reasoning, Origin(place, REASONING))
    return value


def _with_system_folded(messages: Sequence[Message]) -> list[Message] | None:
    """The same conversation without a system message, or None where there is none or no one to give its text to."""
    if len(messages) < 2 or messages[0].role is not Role.SYSTEM or messages[1].role is not Role.USER:
        return None
    system, first, *rest = messages
    if not system.content.strip():
        return [first, *rest]
    return [replace(first, content=f"{system.content}\n\n{first.content}"), *rest]


def _speaks(segments: Sequence[Segment], system: Message) -> bool:
    """Whether the system message reached the layout."""
    return not system.content.strip() or any(segment.message is system for segment in segments)


def _shown(error: Exception) -> str:
    first_line = visible(str(error)).strip().partition("\n")[0]
    return first_line[:200].rstrip(".") or "no reason given"
