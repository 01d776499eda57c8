"""The filters and tests a chat template may use, each paid for and with content marks kept.

Two kinds: filters that hand on what they were given (a message out of a list) cost what they hold, and the marks travel
inside the values; filters that make text cost what they read, and text made from content is content. Jinja's filters
that appear in no chat template and can make much out of little (`center`, `batch`, `wordwrap`, …) are left out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.tests import TESTS
from jinja2.utils import pass_context

from specchat.chat import metering
from specchat.chat.marked_text import MarkedText, mark_all, origin_of

if TYPE_CHECKING:
    from specchat.chat.sandbox import ChatSandbox

# fmt: off
_HANDING_ON = (
    "count", "length", "first", "last", "list", "reverse", "default", "d", "items", "map", "select", "reject",
    "selectattr", "rejectattr", "abs", "int", "float", "attr",
)
_ORDERING = ("sort", "dictsort", "unique", "min", "max")
_MAKING_TEXT = ("upper", "lower", "capitalize", "title", "string", "trim")
_READING_TESTS = (
    "in", "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", ">=", "ge", "<", "lt", "lessthan", "<=", "le",
    "lower", "upper",
)
# fmt: on
_MAX_INDENT = 64

_T = TypeVar("_T")


def filters(sandbox: ChatSandbox) -> dict[str, Callable[..., Any]]:
    """Every filter of the dialect, bound to the sandbox's budget."""
    known: dict[str, Callable[..., Any]] = {name: _handing_on(sandbox, name) for name in _HANDING_ON}
    known |= {name: _reading(sandbox, name) for name in _ORDERING}
    known |= {name: _making_text(sandbox, name) for name in _MAKING_TEXT}
    known |= {
        "join": _join(sandbox),
        "replace": _replace(sandbox),
        "indent": _indent(sandbox),
        "tojson": _tojson(sandbox),
        # Nothing is escaped here, so nothing needs saving from it.
        "safe": sandbox.printed,
    }
    return known | _counters(sandbox)


def tests(sandbox: ChatSandbox) -> dict[str, Any]:
    """Jinja's tests; those that compare or scan pay for what they read."""
    known: dict[str, Any] = dict(TESTS)
    for name in _READING_TESTS:
        known[name] = _paying(sandbox, known[name])
    return known


def _paying(sandbox: ChatSandbox, test: Callable[..., Any]) -> Callable[..., Any]:
    def test_paid(*args: Any) -> Any:
        sandbox.budget.read(list(args))
        return test(*args)

    return test_paid


def _handing_on(sandbox: ChatSandbox, name: str) -> Callable[..., Any]:
    original = FILTERS[name]

    @functools.wraps(original)
    def handing_on(*args: Any, **kwargs: Any) -> Any:
        sandbox.budget.step()
        result = original(*args, **kwargs)
        sandbox.budget.hold(result)
        return result

    return handing_on


def _reading(sandbox: ChatSandbox, name: str) -> Callable[..., Any]:
    original = FILTERS[name]

    @functools.wraps(original)
    def reading(*args: Any, **kwargs: Any) -> Any:
        values = [list(value) if isinstance(value, Iterator) else value for value in args]
        sandbox.budget.call()
        sandbox.budget.read(values)
        result = original(*values, **kwargs)
        sandbox.budget.hold(result)
        return result

    return reading


def _making_text(sandbox: ChatSandbox, name: str) -> Callable[..., str]:
    original = FILTERS[name]

    def making_text(value: Any, *args: Any, **kwargs: Any) -> str:
        sandbox.budget.call()
        text = sandbox.printed(value)
        made = original(text, *args, **kwargs)
        sandbox.budget.hold(made)
        marked: str = mark_all(made, origin_of(text))
        return marked

    return making_text


def _join(sandbox: ChatSandbox) -> Callable[..., str]:
    def join(value: Any, d: str = "", attribute: str | int | None = None) -> str:
        items = value if attribute is None else (sandbox.getitem(item, attribute) for item in value)
        return sandbox.join(d, items)

    return join


def _replace(sandbox: ChatSandbox) -> Callable[..., str]:
    def replace(s: Any, old: Any, new: Any, count: int = -1) -> str:
        return sandbox.replace(sandbox.printed(s), sandbox.printed(old), sandbox.printed(new), count)

    return replace


def _indent(sandbox: ChatSandbox) -> Callable[..., str]:
    def indent(s: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        text = sandbox.printed(s)
        margin = width if isinstance(width, str) else " " * min(int(width), _MAX_INDENT)
        sandbox.budget.spend((text.count("\n") + 1) * len(margin))
        lines = text.split("\n")
        indented = [
            MarkedText.joined((margin, line)) if (line or blank) and (number or first) else line
            for number, line in enumerate(lines)
        ]
        return MarkedText.joined(indented, "\n")

    return indent


def _tojson(sandbox: ChatSandbox) -> Callable[..., str]:
    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """As Hugging Face defines it: no HTML escapes, and letters stay letters."""
        sandbox.budget.read(value)
        text = json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=None if indent is None else min(int(indent), _MAX_INDENT),
            separators=separators,
            sort_keys=sort_keys,
        )
        sandbox.budget.hold(text)
        marked: str = mark_all(text, origin_of(value))
        return marked

    return tojson


def _counters(sandbox: ChatSandbox) -> dict[str, Callable[..., Any]]:
    """The filters that `metering` writes into a template; asking for the context keeps Jinja from folding them."""

    @pass_context
    def step(_: Context, value: _T, expressions: int) -> _T:
        sandbox.budget.step(expressions)
        return value

    @pass_context
    def loop(_: Context, items: Any, expressions: int) -> Iterator[Any]:
        for item in items:
            sandbox.budget.step(expressions)
            yield item

    @pass_context
    def printed(_: Context, value: Any) -> str:
        return sandbox.printed(value)

    @pass_context
    def joined(_: Context, values: list[Any]) -> str:
        return sandbox.join("", values)

    @pass_context
    def read(_: Context, value: _T) -> _T:
        sandbox.budget.read(value)
        return value

    @pass_context
    def hold(_: Context, value: _T) -> _T:
        sandbox.budget.hold(value)
        return value

    return {
        metering.STEP: step,
        metering.LOOP: loop,
        metering.PRINT: printed,
        metering.JOIN: joined,
        metering.READ: read,
        metering.HOLD: hold,
    }
