"""Blocks that may come late: none is lost, and relaxations close as they do without."""

import math
import os
import signal
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from late_workers import wait_for_workers
from threadpoolctl import threadpool_info

from alloc.backends import SolverOptions, highs
from alloc.errors import OutOfTime
from alloc.formulation import RawResult
from alloc.instances.planning import generate_planning
from alloc.models.right_sizing.data import SizingData
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing import block_values
from alloc.solving.right_sizing import relaxation as relaxation_module
from alloc.solving.right_sizing.block_values import BlockValues
from alloc.solving.right_sizing.blocks import BlockSolver, with_raised_penalty
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.solving.right_sizing.opening_tree import OpeningTree
from alloc.solving.right_sizing.relaxation import Relaxation


def data() -> SizingData:
    problem = generate_planning("late", num_host_types=3, num_sites=2, num_quarters=4,
                                num_classes=5, num_scenarios=6, failures=1, seed=5)  # fmt: skip
    return SizingData(problem)


def state(workers: int = 1, watch: Any = None) -> Relaxation:
    return Relaxation(data(), Settings(120.0, workers=workers), 1e-6, watch)


def relaxed(search: Relaxation) -> float:
    with search.values:
        wait_for_workers(search.values)
        answer = search.relax(search.start(), 200, 1e-8, 60.0)
        assert answer is not None
        search.keep_optimum(*answer)
        search.strengthen(1e-8, 60.0)
    return search.linear_bound


@pytest.mark.long
def test_what_is_late_comes_with_the_next_blocks_and_is_the_same() -> None:
    search = state()
    point = search.completing.complete(search.first.upper)
    linked, waived = search.setting.points(point)
    alone = BlockValues(search.block_data).solve(search.tasks, linked, waived)
    tasks = search.some(2)
    with BlockValues(search.block_data, 2) as values:
        wait_for_workers(values)
        for _ in range(3):
            found = values.solve(tasks, linked, waived, may_be_late=0.25)
            assert 0.75 * len(tasks) <= len(found)
            for task, value in found.items():
                assert value.value == pytest.approx(alone[task].value)
            elsewhere = [task for piece in values._sent.values() for task in piece]
            assert sorted([*found, *elsewhere]) == sorted(tasks)
            # What nobody has begun is given up where all are waited for; the rest comes once.
            late = values.take_late(wait_for_all=True)
            assert len(found) + len(late) <= len(tasks)
            left = sorted(alone[task].value for task in elsewhere)
            for value in late:
                assert any(value.value == pytest.approx(known) for known in left)
            assert values.take_late(wait_for_all=True) == []
        # The last blocks that nobody takes end with the context.
        values.solve(tasks, linked, waived, may_be_late=0.25)


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 3])
def test_each_block_is_solved_once_here_or_elsewhere(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, here = state(), []
    point = search.completing.complete(search.first.upper)
    linked, waived = search.setting.points(point)
    alone = BlockValues(search.block_data).solve(search.tasks, linked, waived, keep=True)
    solve = BlockSolver.solve

    def noted(self: BlockSolver, task: Any, *given: Any) -> Any:
        here.append(task)
        return solve(self, task, *given)

    monkeypatch.setattr(BlockSolver, "solve", noted)
    with BlockValues(search.block_data, workers) as values:
        wait_for_workers(values)
        for _ in range(5):
            here.clear()
            calls = values._calls
            found = values.solve(search.tasks, linked, waived, keep=True)
            # Each call has one block: there are fewer than calls.
            elsewhere = values._calls - calls
            assert len(here) == len(set(here)) == len(search.tasks) - elsewhere
            assert found.keys() == alone.keys()
            assert values._sent == {}
            for task, value in found.items():
                assert value.value == pytest.approx(alone[task].value)
                assert value.values == pytest.approx(alone[task].values, abs=1e-5)
        assert values._calls >= 1


@pytest.mark.long
def test_who_is_stopped_elsewhere_is_waited_for_no_longer_than_the_limit() -> None:
    search = state()
    point = search.completing.complete(search.first.upper)
    linked, waived = search.setting.points(point)
    with BlockValues(search.block_data, 2) as values:
        wait_for_workers(values)
        assert values._others is not None
        [process] = values._others._processes
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(OutOfTime):
            values.solve(search.tasks, linked, waived, seconds=0.5)


def test_numpy_has_its_threads_back_when_the_last_of_two_runs_is_over() -> None:
    """Each gave back what it had found: one of two that overlapped found 1."""

    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    data = state().block_data
    first, second = BlockValues(data), BlockValues(data)
    with ExitStack() as last:
        with first:
            last.enter_context(second)
        assert set(threads()) == {1}
    assert threads() == before


def test_nothing_is_left_where_processes_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come then: what was set up goes, also where no `with` has begun."""

    def pressed() -> Any:
        raise KeyboardInterrupt

    before = threadpool_info()
    monkeypatch.setattr(block_values, "ctrl_c_waits", pressed)
    values = BlockValues(state().block_data, 2)
    with pytest.raises(KeyboardInterrupt), values:
        pass
    assert threadpool_info() == before
    assert not values._file.parent.exists()


def test_ctrl_c_ends_an_integer_program_and_keeps_what_it_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HiGHS went on to its limit, half of the time left."""
    asked = []

    def solve(model: Any, options: SolverOptions) -> RawResult:
        asked.append(options.stoppable)
        return RawResult("no_solution", None, None, 1000.0, "interrupt", "Stopped")

    monkeypatch.setattr(highs, "solve", solve)
    search = state()
    programs = [(search.quarters.program(None), SolverOptions(1e9))] * 2
    with search.values:
        for proves, bound in ((False, -math.inf), (True, 1000.0)):
            with pytest.raises(KeyboardInterrupt):
                search.solve_programs(programs, proves)
            assert search.bound == pytest.approx(bound)
    # Without others only the first is solved: all have the whole limit.
    assert asked == [True] * 2


@pytest.mark.long
def test_programs_of_a_worker_that_died_are_left_out() -> None:
    search = state(2)
    program = (search.quarters.program(None), SolverOptions(60.0))
    with search.values as values:
        wait_for_workers(values)
        assert len(values.solve_programs([program] * 2)) == values.count == 2
        assert values._others is not None
        [process] = values._others._processes
        os.kill(process, signal.SIGKILL)
        assert len(values.solve_programs([program] * 2)) == values.count == 1


@pytest.mark.long
def test_no_limit_is_too_long_to_wait_for() -> None:
    search = state(2)
    point = search.completing.complete(search.first.upper)
    linked, waived = search.setting.points(point)
    with search.values as values:
        wait_for_workers(values)
        for seconds in (1e12, math.inf):
            assert len(values.solve(search.tasks, linked, waived, seconds=seconds)) == len(
                search.tasks
            )


@pytest.mark.long
def test_relaxations_close_at_the_same_bound_with_two_workers() -> None:
    """Also through new rows, for which the late duals of the blocks before get zeros."""
    lines: list[str] = []
    two = relaxed(state(2, lines.append))
    assert two == pytest.approx(relaxed(state()), rel=1e-6)
    assert any("turns with blocks" in line and "waited for" in line for line in lines)


@pytest.mark.long
def test_the_check_of_infeasibility_takes_workers_from_late_blocks_and_gives_them_back() -> None:
    search = Decomposition(data(), Settings(600.0, workers=2), 1e-4)
    relaxation = search.relaxation
    point = relaxation.completing.complete(relaxation.first.upper)
    linked, waived = relaxation.setting.points(point)
    alone = BlockValues(relaxation.block_data).solve(relaxation.tasks, linked, waived)
    with relaxation.values as values:
        wait_for_workers(values)
        found = values.solve(relaxation.tasks, linked, waived, may_be_late=0.25)
        known = len(relaxation.pool)
        assert len(found) < len(alone)
        assert not search._prove_infeasible()
        # The cuts that were late are known, and the plan of the check is valued by the workers.
        assert len(relaxation.pool) > known
        assert relaxation.incumbent is not None
        after = values.solve(relaxation.tasks, linked, waived)
    for task, value in after.items():
        assert value.value == pytest.approx(alone[task].value)


@pytest.mark.long
def test_workers_that_start_find_the_blocks_that_they_were_sent_though_others_came_since() -> None:
    search = state()
    dearer = with_raised_penalty(search.block_data)
    point = search.completing.complete(search.first.upper)
    linked, waived = search.setting.points(point)
    alone = BlockValues(dearer).solve(search.tasks, linked, waived)
    with BlockValues(search.block_data, 2) as values:
        assert values.take_late() == []
        values.change(dearer)
        wait_for_workers(values)
        found = values.solve(search.tasks, linked, waived)
    assert {task: value.value for task, value in found.items()} == pytest.approx(
        {task: value.value for task, value in alone.items()}
    )


@pytest.mark.long
def test_workers_take_the_rest_of_the_blocks_as_soon_as_they_have_started() -> None:
    """As of a check of a plan in many scenarios, which values blocks once."""
    search, looks = state(), 0
    point = search.completing.complete(search.first.upper)
    linked, waived = search.setting.points(point)
    alone = BlockValues(search.block_data).solve(search.tasks, linked, waived)

    class Slow(BlockValues):
        def _are_up(self) -> bool:
            nonlocal looks
            looks += 1
            return looks > 4 and super()._are_up()

    with Slow(search.block_data, 2) as values:
        assert values._others is not None
        values._starting[0].result()
        found = values.solve(search.tasks, linked, waived)
        by_others = values._calls
    assert looks == 5
    assert 1 <= by_others <= len(alone) - 4
    assert {task: value.value for task, value in found.items()} == pytest.approx(
        {task: value.value for task, value in alone.items()}
    )


def test_what_is_waited_for_before_a_valuation_does_not_count_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As processes that start: thought to take so long, no valuation would be in time again."""
    search, waited = state(), [0.0]
    point = search.completing.complete(search.first.upper)

    def take_late(wait_for_all: bool = False) -> list[Any]:
        assert not wait_for_all
        waited[0] += 1e6
        return []

    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + waited[0])
    monkeypatch.setattr(relaxation_module, "time", clock)
    monkeypatch.setattr(search.values, "take_late", take_late)
    search.value(point, search.tasks)
    assert waited[0] == 1e6
    assert 0 < search.seconds_to_value < 1e5


def test_single_cuts_are_summed_as_several_are() -> None:
    search = state()
    relaxed(search)
    assert len(search.pool.data.opening.rows)
    linked, waived = search.setting.points(search.relaxed_point)
    at = search.pool.values(linked, waived).argmax(axis=0)
    assert len(np.unique(at)) > 1
    begin, quarters = len(search.quarters.rows), search.setting.shape[1]
    search.quarters.add({(w, t): (at[[w], t], np.ones(1)) for w, t in search.tasks})
    search.quarters.add_single(at)
    wanted, found = np.split(np.arange(begin, begin + 2 * quarters), 2)
    for one, other in zip(wanted, found, strict=True):
        for a, b in zip(search.quarters.rows[one], search.quarters.rows[other], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_branching_ends_when_a_promise_is_good_enough() -> None:
    """With a gap wide enough for the first rounding, one node is all it takes."""
    nodes = []
    for gap in (1e-9, 0.5):
        search = state()
        relaxed(search)
        search.gap = gap
        switches = search.first.open[search.first.open >= 0]
        tree = OpeningTree(search, switches)
        guess = tree.branch(30.0)
        assert guess is not None
        nodes.append(tree._count)
    assert nodes[1] == 3 < nodes[0]
