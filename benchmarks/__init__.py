"""Benchmarks: what alloc promises in numbers, each printed with hardware and versions.

``python -m benchmarks`` runs all of them, ``python -m benchmarks --list`` names them, and
``python -m benchmarks.NAME --help`` shows the options of one. A module of this package is a
benchmark when it has ``main(argv) -> int | None``; the first line of its docstring describes it.
One with ``ON_REQUEST = True`` runs only when it is named.
"""
