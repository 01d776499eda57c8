"""What this machine is, and whether specchat can chat on it."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from specchat import __version__
from specchat.catalogue.cache import cache_root, free_bytes
from specchat.catalogue.errors import CatalogueError
from specchat.catalogue.hub import Hub, endpoint
from specchat.catalogue.inventory import cached_files
from specchat.chat.models import DEMO, Models
from specchat.chat.store import store_path
from specchat.drafters.kept import cache_directory
from specchat.fit.memory import nvidia_cards
from specchat.llama.errors import LlamaError
from specchat.llama.threads import usable_threads

_PACKAGES: Final = ("llama-cpp-python", "textual", "typer", "huggingface-hub", "numpy", "rich")
_HUB_PATIENCE_S: Final = 4.0
_CUDA_INSTALL: Final = "scripts/setup builds llama.cpp for the card where the CUDA toolkit (nvcc) is installed."


@dataclass(slots=True)
class Checkup:
    """Facts by name, in the order they are told, and what is wrong."""

    facts: dict[str, Any] = field(default_factory=dict)
    unusable: list[str] = field(default_factory=list)
    """Sentences: specchat can't answer here before these are mended."""
    advice: list[str] = field(default_factory=list)
    """Sentences: it could be better."""


def examine(*, offline: bool = False) -> Checkup:
    """Look at everything; asks the hub one question unless `offline`."""
    found = Checkup()
    _versions(found)
    _engine(found)
    _disk(found)
    _models(found)
    _hub(found, offline)
    return found


def _versions(found: Checkup) -> None:
    versions = {name: _version(name) for name in _PACKAGES}
    found.facts["specchat"] = __version__
    found.facts["python"] = platform.python_version()
    found.facts["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}"
    found.facts["packages"] = {name: version for name, version in versions.items() if version}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _engine(found: Checkup) -> None:
    cards = nvidia_cards()
    driver = Path("/proc/driver/nvidia/version")
    found.facts["gpu"] = [
        {"name": card.name, "total_bytes": card.total, "free_bytes": card.free} for card in cards.values()
    ]
    if driver.exists():
        found.facts["driver"] = driver.read_text(encoding="utf-8", errors="replace").splitlines()[0]
    try:
        from specchat.llama.gpus import gpus, gpus_unknown
        from specchat.llama.library import library

        lib = library()
        found.facts["llama_cpp_build"] = "GPU" if lib.offloads else "CPU"
        unknown = gpus_unknown()
        found.facts["llama_cpp_devices"] = [
            {"name": gpu.name, "total_bytes": gpu.total, "free_bytes": gpu.free} for gpu in gpus()
        ] or [{"name": "CPU" if unknown is None else "unknown"}]
        found.facts["llama_cpp_features"] = lib.api.llama_print_system_info().decode(errors="replace").strip()
    except (LlamaError, OSError) as error:
        found.facts["llama_cpp_build"] = None
        found.unusable.append(" ".join(str(error).split()))
        return
    if unknown is not None:
        found.advice.append(unknown)
    if cards and not lib.offloads:
        found.advice.append(
            f"There is a graphics card ({next(iter(cards.values())).name}), but this llama.cpp computes on the CPU "
            f"only. {_CUDA_INSTALL}"
        )
    found.facts["threads"] = usable_threads()
    memory = psutil.virtual_memory()
    found.facts["memory"] = {"total_bytes": memory.total, "free_bytes": memory.available}


def _disk(found: Checkup) -> None:
    files = cached_files()
    found.facts["model_cache"] = {
        "path": str(cache_root()),
        "files": len(files),
        "used_bytes": sum(file.size for file in files),
        "free_bytes": free_bytes(cache_root()),
    }
    own = cache_directory()
    found.facts["own_cache"] = {"path": str(own), "used_bytes": _size(own), "free_bytes": free_bytes(own)}
    found.facts["conversations"] = str(store_path())


def _size(folder: Path) -> int:
    # Blocks, not lengths: headers of models lie in files as long as the models that take no room.
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def _models(found: Checkup) -> None:
    try:
        models = Models()
    except CatalogueError as error:
        found.unusable.append(str(error))
        return
    try:
        here = [row.entry.id for row in models.listed() if row.here]
        default, best = models.default(), models.best()
        problem = models.why_no_default() if default is None else None
    finally:
        models.close()
    found.facts["models_here"] = here
    found.facts["demo"] = DEMO in here
    found.facts["default_model"] = None if default is None else default.id
    found.facts["best_that_fits"] = None if best is None else best.id
    if problem is not None:
        pull = f"Get the best that fits: specchat models pull {best.id}" if best else "See: specchat models ls"
        found.unusable.append(f"{problem} {pull}")
    elif best is not None and best.id not in here:
        found.advice.append(f"{best.name} fits this machine: specchat models pull {best.id}")


def _hub(found: Checkup, offline: bool) -> None:
    hub = Hub(offline=offline)
    fact: dict[str, Any] = {"address": endpoint(), "reachable": None}
    found.facts["hub"] = fact
    if hub.is_offline:
        fact["offline"] = True
        return
    started = time.perf_counter()
    problem = _unreachable(endpoint())
    fact["reachable"] = problem is None
    if problem is None:
        fact["answered_in_s"] = round(time.perf_counter() - started, 3)
    else:
        fact["problem"] = problem
        found.advice.append(f"The hub {endpoint()} can't be reached ({problem}); models that are here work without it.")


def _unreachable(address: str) -> str | None:
    """Why nothing answers at `address`, in a few words; None where something does."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    try:
        httpx.head(address, timeout=_HUB_PATIENCE_S, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as error:
        # The last two: a proxy of a kind that can't be used.
        return " ".join(str(error).split()) or type(error).__name__
    return None
