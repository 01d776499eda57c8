"""Models named without an entry: `hf:user/repo[@revision][:file or quantisation]`, and paths."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.sources import HubFile, HubQuery, ListedFile, LocalFile

PREFIX: Final = "hf:"
DEFAULT_QUANTS: Final = ("Q4_K_M", "Q8_0")
"""What is taken of a repository when nothing is asked for, best first."""

_REFERENCE: Final = re.compile(
    r"hf:(?P<repo>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>\w[\w./-]*))?(?::(?P<wanted>[^\s:]+))?", re.ASCII
)
_SPLIT: Final = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<end>\.gguf)", re.IGNORECASE)
_QUANT: Final = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4\w*))(?=$|[-./])", re.IGNORECASE
)
_SIDECAR_PREFIXES: Final = ("mtp-", "eagle3-", "dflash-", "dspark-")
_SIDECAR_WORDS: Final = ("mmproj", "imatrix")
_SHOWN: Final = 12


def is_reference(text: str) -> bool:
    """Whether `text` means a repository of the hub."""
    return text.startswith(PREFIX)


def hub_query(text: str) -> HubQuery:
    """What `hf:user/repo[@revision][:file or quantisation]` asks for; raises ModelUnavailable for any other form."""
    match = _REFERENCE.fullmatch(text)
    if match is None or not is_plain_name(match["wanted"] or ""):
        raise ModelUnavailable(
            f"{text} is no model of the hub: write hf:user/repo, hf:user/repo:Q4_K_M or hf:user/repo:file.gguf."
        )
    return HubQuery(match["repo"], match["revision"], match["wanted"])


def is_plain_name(name: str) -> bool:
    """Whether a file of this name lies below its repository, on every system."""
    return "\\" not in name and not name.startswith("/") and ".." not in name.split("/")


def local_file(path: Path) -> LocalFile:
    """The model at `path`; any part of a split model stands for the whole."""
    return LocalFile(path.with_name(split_names(path.name)[0]))


def named_file(query: HubQuery) -> HubFile | None:
    """The file that `query` names outright, so that no listing is needed; else None."""
    if query.wanted is None or not _is_gguf(query.wanted):
        return None
    return hub_file(query.repo, query.wanted, query.revision)


def hub_file(
    repo: str, file: str, revision: str | None = None, *, size: int | None = None, sha256: str | None = None
) -> HubFile:
    """The model in `file`, with the further parts that its name tells of; size and hash are those of `file` itself."""
    first, *rest = split_names(file)
    parts = tuple(HubFile(repo, name, revision) for name in rest)
    return HubFile(repo, first, revision, size, sha256, parts)


def split_names(name: str) -> tuple[str, ...]:
    """The names of all parts of the model that `name` belongs to, in order; itself alone if it is whole."""
    match = _SPLIT.fullmatch(name)
    count = int(match["count"]) if match else 0
    if match is None or count == 0:
        return (name,)
    return tuple(f"{match['stem']}-{number:05}-of-{count:05}{match['end']}" for number in range(1, count + 1))


def resolve(query: HubQuery, listing: Iterable[ListedFile], revision: str | None = None) -> HubFile:
    """The model that `query` means in a repository with these files; `revision` is the commit that was listed.

    Raises ModelUnavailable where nothing, too much, or half of a split model matches.
    """
    chosen = choose_files(listing, query.wanted, query.repo)
    commit = revision or query.revision
    first, *rest = [HubFile(query.repo, part.name, commit, part.size, part.sha256) for part in chosen]
    return HubFile(first.repo, first.file, first.revision, first.size, first.sha256, tuple(rest))


def choose_files(
    listing: Iterable[ListedFile], wanted: str | None, repo: str = "the repository"
) -> tuple[ListedFile, ...]:
    """The parts, in order, of the model called `wanted` (a file or a quantisation; None: the default) in a listing.

    What only accompanies a model (projectors, importance matrices, draft heads) is never chosen, except by its file's
    name. Raises ModelUnavailable, with what there is, where nothing or more than one model matches, and where parts
    of a split model are missing.
    """
    # Sorted, so that neither choice nor answer depends on the order of the list.
    files = {
        file.name: file
        for file in sorted(listing, key=lambda file: file.name)
        if _is_gguf(file.name) and is_plain_name(file.name)
    }
    everything = list(dict.fromkeys(split_names(name) for name in files))
    if wanted is not None and _is_gguf(wanted):
        names = _by_file(everything, wanted, repo)
    else:
        models = [names for names in everything if not _is_sidecar(names[0])]
        if not models:
            raise ModelUnavailable(f"There is no GGUF model in {repo}. Look for a repository whose name ends in -GGUF.")
        names = _by_quant(models, wanted, repo)
    missing = [name for name in names if name not in files]
    if missing:
        raise ModelUnavailable(f"The model {names[0]} in {repo} is not whole: {_listed(missing)} is missing.")
    return tuple(files[name] for name in names)


def quant_of(name: str) -> str | None:
    """The quantisation a file's name tells, in upper case."""
    tags = _QUANT.findall(_stem(name))
    return tags[-1].upper() if tags else None


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf")


def _stem(name: str) -> str:
    match = _SPLIT.fullmatch(name)
    return match["stem"] if match else name[: -len(".gguf")]


def _is_sidecar(name: str) -> bool:
    path = PurePosixPath(name.lower())
    beside = path.name.startswith(_SIDECAR_PREFIXES) or any(word in path.name for word in _SIDECAR_WORDS)
    # Some repositories keep the same heads in a folder of their own.
    return beside or "mtp" in path.parts[:-1]


def _by_file(models: Sequence[tuple[str, ...]], wanted: str, repo: str) -> tuple[str, ...]:
    sought = split_names(wanted)[0]
    exact = [names for names in models if names[0] == sought]
    loose = [names for names in models if _same_file(names[0], sought)]
    found = exact or loose
    if not found:
        names = [names[0] for names in models]
        near = difflib.get_close_matches(sought, names, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {_listed(names)}." if names else ""
        raise ModelUnavailable(f"There is no file {wanted} in {repo}. {hint}".rstrip())
    return _only(found, f"{wanted} could be", repo)


def _same_file(name: str, sought: str) -> bool:
    name, sought = name.lower(), sought.lower()
    return name == sought or name.endswith(f"/{sought}")


def _by_quant(models: Sequence[tuple[str, ...]], wanted: str | None, repo: str) -> tuple[str, ...]:
    for quant in DEFAULT_QUANTS if wanted is None else (wanted,):
        found = [names for names in models if _has_tag(names[0], quant)]
        # "UD-Q4_K_M" is a Q4_K_M too, but the plain one is meant where there are both.
        plain = [names for names in found if not _has_tag(names[0], f"UD-{quant}")]
        if found:
            return _only(plain or found, f"{quant} could be", repo)
    if wanted is None:
        return _only(models, "Without Q4_K_M or Q8_0 one must be chosen:", repo)
    tags = list(dict.fromkeys(quant_of(names[0]) or names[0] for names in models))
    near = difflib.get_close_matches(wanted.upper(), tags, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {_listed(tags)}."
    raise ModelUnavailable(f"There is no {wanted} in {repo}. {hint}")


def _has_tag(name: str, tag: str) -> bool:
    return re.search(rf"(?:^|[-._/]){re.escape(tag)}(?=$|[-./])", _stem(name), re.IGNORECASE) is not None


def _only(found: Sequence[tuple[str, ...]], which: str, repo: str) -> tuple[str, ...]:
    if len(found) == 1:
        return found[0]
    names = [names[0] for names in found]
    raise ModelUnavailable(f"{which} {_listed(names)} in {repo}. Name one after a colon, such as hf:{repo}:{names[0]}.")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
