"""Tiny random problems of every family, each with its true optimum by plain enumeration.

`benchmarks.exhaustive` holds every formulation, backend and method to these optima;
`benchmarks.watchdog` holds them to their time limits. Enumerations that the tests use too lie with
the tests, which are no package: their folder is put on the path, as pytest does.
"""

import sys
from pathlib import Path

_TESTS = str(Path(__file__).resolve().parents[2] / "tests" / "helpers")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
