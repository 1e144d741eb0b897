"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Sequence
from types import ModuleType

import benchmarks
from alloc.errors import AllocError, nearest
from benchmarks.environment import describe_environment


def discover() -> dict[str, ModuleType]:
    """Return the benchmarks by name: the modules of the package that have a ``main``.

    Those of a package within it are called ``studies.NAME``.
    """
    found = {}
    for info in pkgutil.walk_packages(benchmarks.__path__, f"{benchmarks.__name__}."):
        name = info.name.removeprefix(f"{benchmarks.__name__}.")
        if name.startswith("_"):
            continue
        module = importlib.import_module(info.name)
        if hasattr(module, "main"):
            found[name] = module
    return found


def describe(module: ModuleType) -> str:
    """Return the first line of a benchmark's docstring."""
    return (module.__doc__ or "").strip().partition("\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all that need not be named; return 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks.")
    parser.add_argument("names", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and exit")
    arguments = parser.parse_args(argv)
    modules = discover()
    if arguments.list:
        for name, module in modules.items():
            note = " (only when named)" if getattr(module, "ON_REQUEST", False) else ""
            print(f"{name:23s} {describe(module)}{note}")
        return 0
    for name in arguments.names:
        if name not in modules:
            parser.error(
                f'unknown benchmark "{name}"{nearest(name, modules) or ";"} '
                f"known: {', '.join(modules)}"
            )
    names = arguments.names or [
        name for name, module in modules.items() if not getattr(module, "ON_REQUEST", False)
    ]
    print(describe_environment())
    return _run_all({name: modules[name] for name in names})


def _run_all(modules: dict[str, ModuleType]) -> int:
    """Run each; one that fails does not keep the others from running."""
    failed = []
    for name, module in modules.items():
        print(f"\n== {name}: {describe(module)}", flush=True)
        start = time.perf_counter()
        try:
            code = module.main([]) or 0
        except AllocError as error:
            print(error, file=sys.stderr)
            code = 1
        print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)
        if code:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
