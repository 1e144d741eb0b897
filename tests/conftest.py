"""What every test shares: tests without what they need are not run, and the end says so."""

import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from needs import NEEDS, NOT_RUN, need

# How long an example takes, and how long it takes to draw, is up to the machine.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run and machine: a failure can be had again, and a new one is news.
# `make test-random` draws others.
settings.register_profile("fixed", settings.get_profile("random"), derandomize=True, database=None)
settings.load_profile("fixed")


def pytest_configure():
    """Hear signals also in the background of a script, where a shell has some of them ignored.

    Processes that tests start inherit that; then every test of an interrupt would fail.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT"):
        if (number := getattr(signal, name, None)) and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Mark the tests whose fixtures need something: the fixture ``postgres`` needs PostgreSQL."""
    for item in items:
        for name in NEEDS:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)


def pytest_runtest_setup(item):
    for name in NEEDS:
        if item.get_closest_marker(name):
            need(name)


def pytest_terminal_summary(terminalreporter):
    """Say at the very end what was not run, and how to get it run."""
    tests: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith(NOT_RUN):
            # A module that cannot be imported is reported as a whole.
            (tests if isinstance(report, pytest.TestReport) else files)[reason] += 1
    if not tests and not files:
        return
    terminalreporter.section("NOT RUN", yellow=True)
    for reason in sorted({*tests, *files}):
        counts = {"files": files[reason], "tests": tests[reason]}
        told = " and ".join(f"{count} {unit}" for unit, count in counts.items() if count)
        terminalreporter.line(f"{told}: {reason.removeprefix(NOT_RUN)}", yellow=True)
