"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import pkgutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import benchmarks
from alloc.errors import AllocError, BackendUnavailableError, nearest
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
        try:
            module = importlib.import_module(info.name)
        except BackendUnavailableError as error:
            module = _stand_in(info.name, error)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("alloc", "benchmarks"):
                raise  # not a package that could be installed, but a fault of ours
            sentence = f"{name} needs {error.name}, which is not installed; run `make install`."
            module = _stand_in(info.name, BackendUnavailableError(sentence))
        if hasattr(module, "main"):
            found[name] = module
    return found


def _stand_in(name: str, error: BackendUnavailableError) -> ModuleType:
    """Return a module of the same description whose benchmark says what it lacks."""
    spec = importlib.util.find_spec(name)
    path = Path(str(spec and spec.origin))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ModuleType(name, ast.get_docstring(tree))
    if any(isinstance(part, ast.FunctionDef) and part.name == "main" for part in tree.body):

        def main(argv: Sequence[str] | None = None) -> int:
            raise error

        module.main = main  # type: ignore[attr-defined]
    return module


def describe(module: ModuleType) -> str:
    """Return the first line of a benchmark's docstring."""
    return (module.__doc__ or "").strip().partition("\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all that need not be named; return 1 if one fails.

    One that lacks an optional package is not run and says so; it fails only if it was named.
    """
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
    failed, not_run = _run_all({name: modules[name] for name in names})
    for word, which in (("not run", not_run), ("failed", failed)):
        if which:
            print(f"{word}: {', '.join(which)}", file=sys.stderr)
    return 1 if failed or (not_run and arguments.names) else 0


def _run_all(modules: dict[str, ModuleType]) -> tuple[list[str], list[str]]:
    """Run each; return those that failed, which keep no other from running, and those not run."""
    failed, not_run = [], []
    for name, module in modules.items():
        print(f"\n== {name}: {describe(module)}", flush=True)
        start = time.perf_counter()
        try:
            code = module.main([]) or 0
        except BackendUnavailableError as error:
            print(f"NOT RUN: {error}", file=sys.stderr)
            not_run.append(name)
            continue
        except AllocError as error:
            print(error, file=sys.stderr)
            code = 1
        print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)
        if code:
            failed.append(name)
    return failed, not_run


if __name__ == "__main__":
    sys.exit(main())
