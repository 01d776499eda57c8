"""How many threads to compute with."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil


def _cgroup_quota() -> float:
    """CPUs that the control group grants (cgroup v2), infinite where it says nothing."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf


def usable_threads() -> int:
    """Threads for a forward pass: physical cores, within this process's affinity and its cgroup's quota.

    llama.cpp's own default of 4 is wrong in both directions; a second hardware thread on a core adds nothing to
    kernels that wait for memory.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    physical = psutil.cpu_count(logical=False) or affinity
    return max(1, math.floor(min(affinity, physical, _cgroup_quota())))
