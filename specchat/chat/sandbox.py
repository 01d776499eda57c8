"""The Jinja environment chat templates run in: Hugging Face's dialect, metered, with content kept apart.

Three things meet here because all three need to see every operation: the sandbox (no attribute of Python's own is in
reach, only the methods named below), the work budget, and the marks that tell content from template (`marked_text`).
"""

from __future__ import annotations

import string
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, meta
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from specchat.chat.errors import TemplateRefusal, TemplateTooCostly
from specchat.chat.marked_text import MarkedText, mark_all, origin_of
from specchat.chat.metering import GenerationTag, metered
from specchat.chat.template_filters import filters, tests
from specchat.chat.work_budget import WorkBudget

_MAX_INTEGER_BITS = 4096

# What a template may call on values, by type: each with a cost that follows from the sizes of what goes in.
# fmt: off
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        (
            "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition", "removeprefix",
            "removesuffix", "replace", "join", "format", "upper", "lower", "title", "capitalize", "casefold",
            "swapcase", "startswith", "endswith", "find", "rfind", "index", "rindex", "count", "isalpha", "isalnum",
            "isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper",
        )
    ),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("index", "count")),
    tuple: frozenset(("index", "count")),
}
# fmt: on
_PLAIN_TYPES = (str, bytes, int, float, complex, dict, list, tuple, set, range, type, types.GeneratorType)


def _raise_exception(words: object) -> NoReturn:
    raise TemplateRefusal(str(words))


class ChatSandbox(ImmutableSandboxedEnvironment):
    """Compiles and runs one model's template; `budget` must be fresh for every rendering."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))
    concat = staticmethod(MarkedText.joined)

    def __init__(self, now: Callable[[], datetime] = datetime.now) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            # Folding constants would do the template's work at compile time, outside the budget.
            optimized=False,
        )
        self.budget = WorkBudget()
        self.filters = filters(self)
        self.tests = tests(self)
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: now().strftime(form)

    def compile_chat_template(self, source: str) -> tuple[Template, frozenset[str]]:
        """Compile to run under the budget; also say which variables the template expects to be given.

        Raises TemplateError, or whatever Jinja raises.
        """
        tree = self.parse(source)
        expected = frozenset(meta.find_undeclared_variables(tree))
        return self.from_string(metered(tree, self)), expected

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Only the methods listed above on Python's own types; on Jinja's objects what its sandbox allows."""
        for kind, names in _METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        if isinstance(obj, _PLAIN_TYPES):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Leave `str.format` to `call`, which knows a simpler and cheaper form of it."""

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Look an item up; a tuple as key is hashed anew each time."""
        if isinstance(argument, tuple):
            self.budget.read(argument)
        return super().getitem(obj, argument)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Run one call, paid for; Jinja passes the context first."""
        __self.budget.call()
        receiver = getattr(__obj, "__self__", None)
        if isinstance(receiver, str | list | tuple):
            return __self._call_method(receiver, __obj, args, _without_scopes(kwargs))
        if isinstance(receiver, dict | LoopContext) or __obj is dict or __obj is Namespace:
            __self.budget.read(list(args))
            __self.budget.read(_without_scopes(kwargs))
        result = super().call(__context, __obj, *args, **kwargs)
        __self.budget.hold(result)
        # Of Python's own functions only this one makes text; macros keep their marks by themselves.
        return mark_all(result, origin_of(args)) if __obj is __self.globals["strftime_now"] else result

    def _call_method(
        self, receiver: str | Sequence[Any], method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a method of a string or list, with the marks of what went in on what comes out."""
        self.budget.read(receiver)
        if isinstance(receiver, str) and method.__name__ in ("join", "replace", "format"):
            return getattr(self, method.__name__)(receiver, *args, **kwargs)
        self.budget.read(list(args))
        result = method(*args, **kwargs)
        self.budget.read(result)
        return mark_all(result, origin_of(receiver, args, kwargs))

    def join(self, separator: str, items: Iterable[Any]) -> str:
        """Do `separator.join(items)`, paid for before it is built, marks kept."""
        pieces = [self.printed(item) for item in items]
        for _ in pieces:
            self.budget.hold(separator)
        return MarkedText.joined(pieces, separator)

    def replace(self, text: str, old: str, new: str, count: int = -1) -> str:
        """Do `text.replace(old, new, count)`, paid for before it is built, marks kept."""
        for _ in range(text.count(old)):
            self.budget.step()
            self.budget.hold(new)
        return MarkedText(text, getattr(text, "marks", ())).replace(old, new, count)

    def format(self, text: str, *args: Any, **kwargs: Any) -> str:
        """Do `text.format(...)` with plain fields: widths, conversions and attribute access are refused."""
        pieces: list[str] = []
        unnumbered = iter(args)
        named: dict[str, Any] = {**kwargs, **{str(place): value for place, value in enumerate(args)}}
        for literal, field, spec, conversion in string.Formatter().parse(text):
            pieces.append(mark_all(literal, origin_of(text)))
            if field is None:
                continue
            if spec or conversion:
                raise TypeError("format fields may not have a width or a conversion")
            pieces.append(self.printed(named[field] if field else next(unnumbered)))
        return MarkedText.joined(pieces)

    def printed(self, value: Any) -> str:
        """Do `str(value)`, paid for, marked as content if anything inside is."""
        self.budget.step()
        self.budget.read(value)
        if isinstance(value, str):
            return value
        _check_printable(value)
        text = str(value)
        self.budget.hold(text)
        marked: str = mark_all(text, origin_of(value))
        return marked

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic whose result is paid for before it exists."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self.budget.hold(left)
            self.budget.hold(right)
            return MarkedText.joined((left, right))
        if operator == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            self.budget.hold(left)
            self.budget.hold(right)
        elif operator == "*":
            self._pay_for_product(left, right)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._check_integer(left.bit_length() * max(right, 0))
        elif operator == "%" and isinstance(left, str):
            raise TypeError("formatting text with % is not available")
        return super().call_binop(context, operator, left, right)

    def _pay_for_product(self, left: Any, right: Any) -> None:
        for value, count in ((left, right), (right, left)):
            if isinstance(value, str | list | tuple) and isinstance(count, int):
                before = self.budget.left
                self.budget.hold(value)
                self.budget.spend((before - self.budget.left) * max(count - 1, 0))
        if isinstance(left, int) and isinstance(right, int):
            self._check_integer(left.bit_length() + right.bit_length())

    def _check_integer(self, bits: int) -> None:
        if bits > _MAX_INTEGER_BITS:
            raise TemplateTooCostly("computes with enormous numbers")


def _without_scopes(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments as the template wrote them; Jinja adds its own about loops and blocks."""
    return {name: value for name, value in kwargs.items() if not name.startswith("_")}


def _check_printable(value: Any) -> None:
    """Refuse to print objects whose text could show content that no mark can be found in (a bound method, a view)."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_printable(key)
            _check_printable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_printable(item)
    elif value is not None and not isinstance(value, str | int | float | Undefined):
        raise TypeError(f"it prints a {type(value).__name__}")
