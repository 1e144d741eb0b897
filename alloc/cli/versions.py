"""``alloc versions``: what a bug report needs to say about the machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from alloc.cli import options
from alloc.cli.console import print_json, show
from alloc.release import alloc_version

_PACKAGES = (
    "numpy",
    "scipy",
    "networkx",
    "pyomo",
    "highspy",
    "ortools",
    "pydantic",
    "typer",
    "rich",
    "joblib",
    "matplotlib",
    "sqlalchemy",
    "onnx",
    "onnxruntime",
    "torch",
)


def versions_command(json: options.JsonOption = False) -> None:
    """Print the versions of alloc, Python and the solvers, and the platform."""
    found = versions()
    if json:
        print_json(found)
        return
    from alloc.cli.tables import facts

    show(facts(found.items()))


def versions() -> dict[str, str | None]:
    """Return the versions that a bug report needs; None for what is not installed."""
    found: dict[str, str | None] = {"alloc": alloc_version()}
    found |= {name: _version(name) for name in _PACKAGES}
    found["Python"] = f"{platform.python_version()} ({platform.python_implementation()})"
    found["platform"] = platform.platform()
    found["machine"] = platform.machine()
    found["cores"] = str(os.cpu_count())
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
