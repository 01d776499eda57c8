"""Templates that reach for Python or never end: one sentence each, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from specchat.chat.errors import TemplateError, TemplateTooCostly
from specchat.chat.message import Message, Role
from specchat.chat.template import ChatTemplate

from .toy_vocabulary import ToyVocabulary

_GROW = "{{% set ns = namespace(x={0}) %}}{{% for i in range(60) %}}{{% set ns.x = {1} %}}{{% endfor %}}{{{{ ns.x }}}}"
_TUPLE = "{% set big = (1,) * 100000 %}{% for i in range(99999) %}"
# Work that costs nothing by itself: only the size of the body that holds it counts.
_STEADY = ("{% set y = " + "1 + " * 20 + "1 %}") * 40
_BIG = "{% set big = 'a' * 500000 %}{% set other = 'b' * 500000 %}{% for i in range(99999) %}"


def _render(source: str) -> str:
    return ChatTemplate(source, ToyVocabulary()).render([Message(Role.USER, "hi")]).text


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__']['__mro__'] }}",
        "{{ (''|attr('__class__')).__mro__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ strftime_now.__closure__[0] }}",
        "{{ messages[0].content.marks[0] }}",
        "{{ messages[0].content.whole() }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({}) }}",
        "{{ dict.fromkeys('ab') }}",
        "{{ (5).to_bytes(10**9) }}",
        "{{ 'a'.encode() }}",
    ],
)
def test_nothing_outside_the_conversation_is_in_reach(source: str) -> None:
    with pytest.raises(TemplateError, match=r"chat template .*\. Use another copy of this model\.$"):
        _render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
        "{% for i in range(99999) %}{% set x = range(99999)|list %}{% endfor %}",
        "{% for i in range(99999) %}{{ range(99999)|map('upper')|join }}{% endfor %}",
        "{{ 'a' * 10**10 }}",
        "{{ 10**10 * [0] }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
        "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
        "{{ ('a' * 100000).join('b' * 100000) }}",
        "{{ range(99999)|join('a' * 100000) }}",
        "{{ 9**9999999 }}",
        _GROW.format("'ab'", "ns.x ~ ns.x"),
        _GROW.format("'ab'", "ns.x + ns.x"),
        _GROW.format("[1]", "ns.x + ns.x"),
        _GROW.format("[1]", "[ns.x, ns.x]"),
        _GROW.format("(1,)", "(ns.x, ns.x)"),
        "{% set ns = namespace(x=()) %}{% for i in range(25) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}",
        _TUPLE + "{% set x = {big: 1} %}{% endfor %}",
        _TUPLE + "{% set x = {}[big] %}{% endfor %}",
        _TUPLE + "{% set x = {}.get(big) %}{% endfor %}",
        _TUPLE + "{% if big in {} %}{% endif %}{% endfor %}",
        _TUPLE + "{% set x = [big]|unique|list %}{% endfor %}",
        _TUPLE + "{% set x = loop.changed(big) %}{% endfor %}",
        "{% macro f() %}" + _STEADY + "{% endmacro %}{% for i in range(99999) %}{% set x = f() %}{% endfor %}",
        "{% macro f() %}{% for i in range(99999) %}{% set x = caller() %}{% endfor %}{% endmacro %}{% call f() %}"
        + _STEADY
        + "{% endcall %}",
        "{{ ('a ' * 200000).split()|length }}",
        _GROW.format("{}", "{'a': ns.x, 'b': ns.x}"),
        _GROW.format("{}", "dict(a=ns.x, b=ns.x)"),
        _GROW.format("3", "ns.x * ns.x"),
        _GROW.format("'ab'", "'{0}{0}'.format(ns.x)"),
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"
        "{% endfor %}",
        _BIG + "{% if 'b' in big %}{% endif %}{% endfor %}",
        _BIG + "{% if big is eq(other) %}{% endif %}{% endfor %}",
        _BIG + "{% set x = big.count('b') %}{% endfor %}",
        _BIG + "{% set x = big[1:] %}{% endfor %}",
        _BIG + "{% set x = big|upper %}{% endfor %}",
        _BIG + "{% set x = big|tojson %}{% endfor %}",
        _BIG + "{{ big }}{% endfor %}",
    ],
)
def test_endless_work_is_stopped(source: str) -> None:
    started = time.process_time()
    with pytest.raises(TemplateTooCostly, match=r"was stopped because it .*\. Use another copy of this model\."):
        _render(source)
    assert time.process_time() - started < 20, "takes a second; 20 mean that nothing stopped it"


@pytest.mark.parametrize(
    "source",
    [
        "{{ range(10**9)|list }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ 'x'.center(10**9) }}",
        "{{ 'x'|center(10**9) }}",
        "{{ [1]|batch(10**9, 'x')|list }}",
        "{{ lipsum(99999) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% if 1 %}" * 500 + "x" + "{% endif %}" * 500,
        "{% for a in [1] %}" * 40 + "x" + "{% endfor %}" * 40,
        "{{ " + "9" * 60000 + " }}",
        "x" * 300_000,
        "{% call(x) namespace() %}{% endcall %}",
        "{{ unknown() }}",
        "{{ 1 / 0 }}",
    ],
)
def test_whatever_else_fails_is_one_sentence(source: str) -> None:
    with pytest.raises(TemplateError, match=r"^The model's chat template [^\n]*\.$"):
        _render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
        "{% from '/etc/passwd' import x %}",
        "{% extends '/etc/passwd' %}",
        "{% block x %}{{ self.x() }}{% endblock %}",
    ],
)
def test_tags_that_reach_for_files_or_other_templates_are_refused(source: str) -> None:
    with pytest.raises(TemplateError, match="in line 1, which is not available to templates in model files"):
        _render(source)


def test_a_recursive_loop_which_no_counter_sees_is_refused() -> None:
    with pytest.raises(TemplateError, match="uses a recursive loop in line 1"):
        _render("{% for x in [1] recursive %}{{ loop([]) }}{% endfor %}")


def test_widths_are_capped_rather_than_built() -> None:
    assert len(_render("{{ 'x'|indent(10**9, true) }}{{ [1]|tojson(indent=10**9) }}")) < 300


def test_a_text_bomb_stays_within_the_memory_that_is_promised() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TemplateTooCostly):
            _render(_GROW.format("'é漢'", "ns.x ~ ns.x"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300 * 1024 * 1024


def test_honest_work_on_a_long_conversation_is_not_stopped() -> None:
    # Looks back over all messages for each, and collects its output: the dearest things published templates do.
    source = (
        "{% set ns = namespace(out='') %}{% for m in messages %}{% for n in messages[:loop.index] %}"
        "{% if n.role == 'tool' %}x{% endif %}{% endfor %}{% set ns.out = ns.out + '[' + m.role + ']' + m.content %}"
        "{% endfor %}{{ ns.out }}"
    )
    messages = [Message((Role.USER, Role.ASSISTANT)[i % 2], "word " * 400) for i in range(300)]
    rendered = ChatTemplate(source, ToyVocabulary()).render(messages)
    assert len(rendered.text) == sum(len(m.content) + len(m.role) + 2 for m in messages)
