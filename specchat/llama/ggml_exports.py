"""Functions that ggml exports and llama-cpp-python does not bind, looked up in the libraries that it came with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from specchat.llama.errors import LlamaError
from specchat.llama.library import library

_SUFFIXES: Final = (".so", ".dylib", ".dll")
"""Without the names that carry a version: they lead to the same files."""


class FunctionMissing(LlamaError):
    """A function that the installed build does not export; the message names it."""


def libraries_beside(llama: ctypes.CDLL) -> list[ctypes.CDLL]:
    """Where to look for ggml's functions: `llama` itself, then the libraries of ggml in its directory.

    A look-up in a library finds what that one depends on, except on Windows.
    """
    found = [llama]
    directory = Path(llama._name).parent
    for pattern in ("*ggml-base.*", "*ggml.*"):
        for path in sorted(directory.glob(pattern)):
            if path.suffix in _SUFFIXES:
                # One that can't be loaded has no functions: what is missing is said for the function.
                with suppress(OSError):
                    found.append(ctypes.CDLL(str(path)))
    return found


@cache
def _libraries() -> Sequence[ctypes.CDLL]:
    return libraries_beside(library().api._lib)


def ggml_function(name: str, result: Any, *arguments: Any, without: str = "") -> Any:
    """The function `name` with these ctypes types; `without`: a sentence about what can't be done where it is missing.

    Raises FunctionMissing.
    """
    for lib in _libraries():
        if hasattr(lib, name):
            # An object of its own: types set on the package's would change them for others.
            function = lib[name]
            function.restype, function.argtypes = result, arguments
            return function
    raise FunctionMissing(f"This build of llama.cpp has no {name}. {without}".rstrip())
