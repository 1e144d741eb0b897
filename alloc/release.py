"""Which release of alloc this is."""

from __future__ import annotations

from functools import cache

DISTRIBUTION = "gpu-allocation"
"""Name of the package for pip. On the public package index `alloc` is another project."""


@cache
def alloc_version() -> str:
    """Return the version of alloc: of the installed package, else of the checkout around it.

    It is read once in a process.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        project = Path(__file__).parents[1] / "pyproject.toml"
        told: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
        return told
