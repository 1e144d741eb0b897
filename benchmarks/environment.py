"""The environment of a benchmark: hardware, versions and commit, printed beside every number."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "numpy",
    "scipy",
    "highspy",
    "ortools",
    "pyomo",
    "networkx",
    "joblib",
    "onnxruntime",
)
"""Packages whose versions move the numbers."""


def environment() -> dict[str, str]:
    """Return what the numbers of a benchmark depend on, in the order to print it."""
    found = {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "load": _load(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "commit": commit_of(Path(__file__).resolve().parent.parent),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def describe_environment() -> str:
    """Return the environment as text, one line an item."""
    return "\n".join(f"{name:10s} {value}" for name, value in environment().items())


def _cpu() -> str:
    """Return the model of the CPU; `platform.processor` is empty on many Linux systems."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _load() -> str:
    """Return the mean number of processes at work in the last minute: above 0 others slow us."""
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except (AttributeError, OSError):
        return "unknown"


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return f"{total / 2**30:.1f} GiB"


def commit_of(root: Path) -> str:
    """Return the commit of a checkout, marked when files differ from it."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
