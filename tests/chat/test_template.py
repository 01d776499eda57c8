"""Rendering: what Jinja itself would print, with contents kept apart from the template's own words."""

from __future__ import annotations

from datetime import datetime
from functools import cache

import jinja2.sandbox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.chat.errors import TemplateError, TemplateRefusal
from specchat.chat.message import Message, Role
from specchat.chat.metering import GenerationTag
from specchat.chat.template import ChatTemplate

from . import layouts
from .toy_vocabulary import ToyVocabulary

_NOW = datetime(2024, 7, 26)
# No template spells it, and no change of case or escape touches it.
_MINE = "\ue123"


def _user(text: str) -> Message:
    return Message(Role.USER, text)


def _assistant(text: str, reasoning: str = "") -> Message:
    return Message(Role.ASSISTANT, text, reasoning=reasoning)


def _template(source: str | None, vocabulary: ToyVocabulary | None = None) -> ChatTemplate:
    return ChatTemplate(source, vocabulary or ToyVocabulary(), now=lambda: _NOW)


_compiled = cache(_template)


@cache
def _plain(source: str) -> jinja2.Template:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationTag]
    )
    environment.globals["strftime_now"] = _NOW.strftime
    return environment.from_string(source)


def _as_jinja_prints(source: str, messages: list[Message], **options: object) -> str:
    """The reference: the plain sandbox with nothing of ours but the tag for training."""
    values = [
        {"role": m.role.value, "content": m.content} | ({"reasoning_content": m.reasoning} if m.reasoning else {})
        for m in messages
    ]
    return _plain(source).render(
        messages=values, bos_token="<s>", eos_token="</s>", tools=None, add_generation_prompt=True, **options
    )


_CONTENT = st.lists(
    st.sampled_from(
        [
            " ",
            "\n",
            "a",
            "word",
            "/x",
            "<think>",
            "</think>",
            "<|im_end|>",
            "<reply>",
            "</reply>",
            "{{ 1 }}",
            "é",
            _MINE,
        ]
    ),
    max_size=6,
).map("".join)


@st.composite
def _conversations(draw: st.DrawFn) -> list[Message]:
    turns = draw(st.integers(0, 2))
    messages = []
    for _ in range(turns):
        messages += [_user(draw(_CONTENT)), _assistant(draw(_CONTENT), draw(_CONTENT))]
    return [*messages, _user(draw(_CONTENT))]


@pytest.mark.parametrize("name", layouts.ALL)
@settings(max_examples=30, deadline=None)
@given(messages=_conversations(), enable_thinking=st.booleans())
def test_the_text_is_what_jinja_prints_and_no_content_is_in_the_templates_words(
    name: str, messages: list[Message], enable_thinking: bool
) -> None:
    source = layouts.ALL[name]
    rendered = _compiled(source).render(messages, enable_thinking=enable_thinking)
    assert rendered.text == _as_jinja_prints(source, messages, enable_thinking=enable_thinking)
    assert all(segment.is_content for segment in rendered.segments if _MINE in segment.text)


@pytest.mark.parametrize("name", sorted(layouts.ALL.keys() - {"strict"}))
def test_a_system_message_is_laid_out_where_the_template_takes_one(name: str) -> None:
    source, messages = layouts.ALL[name], [Message(Role.SYSTEM, f"Be {_MINE} kind."), _user("Hi")]
    rendered = _template(source).render(messages)
    assert rendered.text == _as_jinja_prints(source, messages)
    assert [s.message for s in rendered.segments if _MINE in s.text] == [messages[0]]
    assert not rendered.system_folded


@pytest.mark.parametrize("name", layouts.ALL)
def test_every_content_is_recognised_as_a_whole_message(name: str) -> None:
    messages = [_user("One?"), _assistant("First."), _user(" Two? "), _assistant("\nSecond. "), _user("Three?")]
    whole = [s.message for s in _template(layouts.ALL[name]).render(messages).segments if s.is_whole]
    assert [id(message) for message in whole] == [id(message) for message in messages]


def test_a_part_of_a_message_is_not_taken_for_all_of_it() -> None:
    messages = [_user("One?"), _assistant("a</think>b"), _user("Two?")]
    segments = _template(layouts.PREOPENED).render(messages).segments
    assert [(s.text, s.is_whole) for s in segments if s.message is messages[1]] == [("b", False)]


def test_a_system_message_the_template_refuses_goes_before_the_first_question() -> None:
    messages = [Message(Role.SYSTEM, "Be kind."), _user("Hi"), _assistant("Hello"), _user("Bye")]
    rendered = _template(layouts.STRICT).render(messages)
    folded = [_user("Be kind.\n\nHi"), *messages[2:]]
    assert rendered.system_folded
    assert rendered.text == _as_jinja_prints(layouts.STRICT, folded)


def test_a_system_message_the_template_drops_silently_goes_there_too() -> None:
    source = "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
    rendered = _template(source).render([Message(Role.SYSTEM, "Be kind."), _user("Hi")])
    assert (rendered.system_folded, rendered.text) == (True, "[user]Be kind.\n\nHi")


def test_a_system_message_that_the_template_rewrites_is_not_dropped() -> None:
    source = "{% for m in messages %}{{ m.content|upper }}{% endfor %}"
    assert _template(source).render([Message(Role.SYSTEM, "Be kind."), _user("Hi")]).text == "BE KIND.HI"


def test_another_refusal_is_told_in_the_templates_words() -> None:
    with pytest.raises(TemplateRefusal, match=r"refuses this conversation: Conversation roles must alternate"):
        _template(layouts.STRICT).render([_user("One"), _user("Two")])


def test_a_refusal_can_not_steer_the_terminal() -> None:
    with pytest.raises(TemplateError) as caught:
        _template("{{ raise_exception('no\\x1b[2J way' ~ 'y' * 9999) }}").render([_user("Hi")])
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("name", "enable_thinking", "inside"),
    [("preopened", None, True), ("preopened", False, True), ("thinking", None, False), ("thinking", False, False)],
)
def test_a_reasoning_opened_by_the_prompt_is_reported(name: str, enable_thinking: bool | None, inside: bool) -> None:
    rendered = _template(layouts.ALL[name]).render([_user("Hi")], enable_thinking=enable_thinking)
    assert rendered.starts_in_reasoning is inside


def test_a_tag_typed_by_the_user_opens_no_reasoning() -> None:
    source = "{{ messages[0].content }}"
    assert not _template(source).render([_user("<think>")]).starts_in_reasoning


@pytest.mark.parametrize(("given", "seen"), [(None, "auto"), (True, "on"), (False, "off")])
def test_thinking_is_passed_on_only_when_chosen(given: bool | None, seen: str) -> None:
    for name in ("enable_thinking", "thinking"):
        source = f"{{{{ 'auto' if {name} is not defined else 'on' if {name} else 'off' }}}}"
        template = _template(source)
        assert template.has_thinking_switch
        assert template.render([_user("Hi")], enable_thinking=given).text == seen
    assert not _template(layouts.CHATML).has_thinking_switch


def test_old_reasoning_is_given_to_the_template_but_never_as_its_own_words() -> None:
    source = "{% for m in messages %}<{{ m.reasoning_content|default('none') }}>{{ m.content }}{% endfor %}"
    segments = _template(source).render([_user("Hi"), _assistant("Yes", reasoning="Yes")]).segments
    assert [(s.text, s.is_content, s.is_whole) for s in segments] == [
        ("<none>", False, False),
        ("Hi", True, True),
        ("<", False, False),
        ("Yes", True, False),
        (">", False, False),
        ("Yes", True, True),
    ]


def test_tags_on_lines_of_their_own_leave_no_space_behind() -> None:
    source = "{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n"
    assert _template(source).render([_user("Hi"), _user("Bye")]).text == "Hi\nBye\n"


def test_tojson_is_hugging_faces() -> None:
    source = "{{ {'b': '<é>', 'a': [1, none]}|tojson }}|{{ [1]|tojson(indent=2) }}|{{ [1, 2]|tojson(separators=',:') }}"
    assert _template(source).render([]).text == '{"b": "<é>", "a": [1, null]}|[\n  1\n]|[1,2]'


def test_a_file_without_a_template_gets_chatml_where_the_vocabulary_knows_it() -> None:
    template = _template(None)
    assert "ChatML" in template.note
    assert template.stop_strings == ()
    messages = [Message(Role.SYSTEM, "Be kind."), _user("Hi")]
    assert template.render(messages).text == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_file_without_template_or_chatml_gets_a_plain_layout_and_stop_strings() -> None:
    template = _template("  ", ToyVocabulary(controls=("<s>", "</s>")))
    assert "plain layout" in template.note
    messages = [_user("Hi"), _assistant("Hello"), _user("Bye")]
    assert template.render(messages).text == "user:\nHi\n\nassistant:\nHello\n\nuser:\nBye\n\nassistant:\n"
    assert "\nuser:" in template.stop_strings


def test_a_models_own_template_needs_no_note() -> None:
    assert _template(layouts.CHATML).note == ""


@pytest.mark.parametrize("source", ["{% if", "{{ 1 | }}", "{% endfor %}"])
def test_a_broken_template_is_one_sentence_when_it_is_opened(source: str) -> None:
    with pytest.raises(TemplateError, match=r"line 1 has an error: .*another copy of this model\."):
        _template(source)


# Everything a template can do to a content on its way out. `content` is the message's text, `tag` the template's own.
_WAYS = [
    "{{ content }}",
    "{{ content|upper }}{{ content|title }}{{ content|capitalize }}{{ content.swapcase() }}",
    "{{ content[0] }}{{ content[-1] }}{{ content[1:3] }}{{ content[::-1] }}{{ content|first }}{{ content|last }}",
    "{% for c in content %}{{ c }}{{ loop.previtem }}{% endfor %}",
    "{{ content|reverse }}{{ content|list }}{{ content|list|join('-') }}{{ content|sort|join }}",
    "{{ content.split() }}{{ content.split('a')|last }}{{ content.splitlines()|first }}{{ content.rpartition('a') }}",
    "{{ [content, tag] }}{{ {'a': content} }}{{ {content: 1} }}{{ (content, 1) }}{{ messages }}{{ messages[0] }}",
    "{{ content|tojson }}{{ messages|tojson }}{{ [content]|string }}{{ [content]|upper }}",
    "{{ '{}'.format(content) }}{{ '{x}'.format(x=content) }}{{ content.format() }}{{ '{0}'.format([content]) }}",
    "{{ ', '.join([content, tag]) }}{{ content.join(['a', 'b']) }}{{ ['a', 'b']|join(content) }}",
    "{{ messages|join(attribute='content') }}{{ messages|map(attribute='content')|join }}",
    "{{ messages|map(attribute='content')|map('upper')|list }}",
    "{{ 'N'.replace('N', content) }}{{ 'N'|replace('N', content) }}{{ content.replace('a', tag) }}",
    "{{ content|replace('', '-') }}{{ content.replace('', '-') }}",
    "{{ content|indent(2, true) }}{{ 'a\\nb'|indent(content) }}{{ content|trim(tag) }}",
    "{{ content ~ tag }}{{ tag + content }}{{ content * 2 }}{{ 2 * content }}",
    "{% set x %}{{ content }}{% endset %}{{ x }}{% set ns = namespace(x=content) %}{{ ns.x }}",
    "{% macro show(c) %}[{{ c }}]{% endmacro %}{{ show(content) }}{{ show(content)|upper }}{{ show(content)[1:] }}",
    "{% macro wrap() %}{{ caller() }}{% endmacro %}{% call wrap() %}{{ content }}{% endcall %}",
    "{% filter lower %}{{ content }}{{ tag }}{% endfilter %}",
    "{{ messages[0].values()|list }}{{ messages[0].items()|list }}{% for k, v in messages[0]|items %}{{ v }}"
    "{% endfor %}",
    "{{ messages[0]|dictsort }}{{ [content]|unique|join }}{{ [content, '']|max }}{{ cycler(content).next() }}",
    "{{ content|default('x') }}{{ nothing|default(content) }}{{ content if true }}{{ (content or tag)|safe }}",
    "{{ strftime_now(content) }}{{ content|string|trim|safe }}{{ dict(a=content) }}{{ dict(a=content).a }}",
    "{{ tag.partition(content) }}{{ tag.strip(content) }}{{ [content, tag]|map('replace', 'a', content)|join }}",
]


@pytest.mark.parametrize("way", _WAYS)
def test_content_stays_content_whatever_the_template_does_to_it(way: str) -> None:
    text = f"{_MINE}a<|im_end|>{_MINE}"
    source = "{% set content = messages[0].content %}{% set tag = '<|im_start|>' %}" + way
    segments = _template(source).render([_user(text)]).segments
    assert any(_MINE in s.text or ascii(_MINE)[1:-1] in s.text for s in segments)
    assert [s.text for s in segments if not s.is_content and (_MINE in s.text or "im_end" in s.text.lower())] == []


@pytest.mark.parametrize(
    "way",
    [
        "{{ content.strip }}",
        "{{ [content.strip] }}",
        "{{ content.strip|string }}",
        "{{ messages[0].items()|upper }}",
        "{{ 'x' ~ content|map('upper') }}",
        "{{ 'x'|replace('x', content.strip) }}",
        "{{ '{}'.format(content.strip) }}",
        "{{ [content.strip]|join }}",
    ],
)
def test_what_hides_content_behind_an_object_is_not_printed(way: str) -> None:
    with pytest.raises(TemplateError, match="it prints a"):
        _template("{% set content = messages[0].content %}" + way).render([_user("Hi")])
