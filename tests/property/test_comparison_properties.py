"""Comparisons of anything: bound <= best found <= every row, and rows survive an interrupt."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alloc import simulate, solving
from alloc.comparison import Comparison, compare
from alloc.comparison.settings import OPTIMUM
from alloc.instances import generate_elastic
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang

RULES = ("fifo", "srtf", "srtf-dl2", "las", "drf", "easy-backfill", "optimus", "tetris")
EVEN_OUT = 1 + 1e-9


def world(seed: int) -> Instance:
    """Return a few jobs of any kind on two hosts of four GPUs, in slots or without."""
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(int(rng.integers(2, 6))):
        sizes = rng.choice([1, 2, 4], size=int(rng.integers(1, 4)), replace=False)
        elasticity: Any = ("rigid", "moldable", "malleable")[int(rng.integers(3))]
        table = tuple(rigid_gang(int(g), rate=float(g) ** 0.8) for g in sorted(sizes))
        job = Job(
            f"job-{k}",
            float(rng.uniform(0.0, 40.0)),
            float(rng.uniform(5.0, 80.0)),
            table[:1] if elasticity == "rigid" else table,
            weight=float(rng.integers(1, 4)),
            elasticity=elasticity,
            preemptible=bool(rng.random() < 0.8),
            restart_cost_s=float(rng.choice([0.0, 0.0, 3.0])),
        )
        late = job.arrival_s + float(rng.uniform(2.0, 20.0)) * job.min_run_s
        jobs.append(job.replace(deadline_s=late) if rng.random() < 0.2 else job)
    hosts = flat_cluster("two", HostType("host", 4, "gpu"), 2)
    return Instance(f"world-{seed}", hosts, tuple(jobs), slot_s=5.0 if seed % 2 else None)


def hold_together(comparison: Comparison) -> None:
    """The three promises of every table."""
    for name in (instance.name for instance in comparison.instances.values()):
        rows = [row for row in comparison.rows if row.instance == name]
        best = next(row for row in rows if row.scheduler == OPTIMUM)
        valid = [row for row in rows if not row.error and not row.metrics.get("num_late")]
        assert all(row.gap is None or row.gap >= 0 for row in rows)
        assert all(best.objective <= row.objective for row in valid)
        certificate = comparison.bound(name).certificate
        assert certificate is not None
        if certificate.status != "infeasible" and best.error is None:
            assert certificate.bound <= best.objective * EVEN_OUT
            assert certificate.objective == best.objective


@pytest.mark.parametrize("seed", range(10))
def test_bound_best_found_and_rows_are_in_order(seed: int) -> None:
    """In slots and in continuous time, with restarts, deadlines and jobs that may not pause."""
    names = np.random.default_rng(seed).choice(RULES, size=4, replace=False).tolist()
    hold_together(compare([world(seed)], names, time_limit_s=0.3))


@pytest.mark.parametrize("slot_s", [600.0, None])
def test_a_poor_solver_does_not_make_a_poor_best_found(
    slot_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best row is the best found, whatever the solver comes back with, and is named."""
    instance = generate_elastic("poor", num_jobs=5, num_hosts=2, seed=2).replace(slot_s=slot_s)
    poor = simulate(instance, make_scheduler("fifo")).schedule
    true_solve = solving.solve

    def stop_early(*args: Any, warm_start: object, **options: Any) -> object:
        result = true_solve(*args, warm_start=poor, **{**options, "limits": Limits(seconds=0.2)})
        value = objective("weighted_jct").evaluate(instance, poor)
        certificate = result.certificate.replace(status="feasible", objective=value)
        return dataclasses.replace(result, solution=poor, certificate=certificate)

    monkeypatch.setattr(solving, "solve", stop_early)
    comparison = compare([instance], ["fifo", "drf", "srtf", "optimus"])
    hold_together(comparison)
    rows = {row.scheduler: row.objective for row in comparison.rows}
    winner = min((row for row in rows if row != OPTIMUM), key=lambda row: rows[row])
    assert rows[OPTIMUM] == rows[winner] < rows["fifo"]
    assert comparison.bound("poor").source == f"{winner}, seed 0"
    assert comparison.schedule("poor", OPTIMUM) == comparison.schedule("poor", winner)


def test_a_later_scheduler_improves_what_was_stored(tmp_path: Path) -> None:
    """A stored solve that a new row beats is begun again from that row, and keeps its proof."""
    instance = generate_elastic("later", num_jobs=8, num_hosts=2, max_workers=6, max_ps=6, seed=1)
    store = tmp_path / "runs.sqlite"
    first = compare([instance], ["fifo"], time_limit_s=0.05, store=store)
    second = compare([instance], ["fifo", "set-rule", "drf"], time_limit_s=0.05, store=store)
    hold_together(first)
    hold_together(second)
    before, after = (c.bound("later").certificate for c in (first, second))
    assert before is not None
    assert after is not None
    assert after.bound >= before.bound * (1 - 1e-9)
    assert after.objective is not None
    assert before.objective is not None
    assert after.objective <= before.objective


@pytest.mark.long
@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 5])
def test_an_interrupt_after_any_piece_keeps_all_before_it(pieces: int, tmp_path: Path) -> None:
    """And the next run takes them from the store, does the rest, and shows the same rows."""
    instances_ = [generate_elastic(f"i-{k}", num_jobs=3, num_hosts=1, seed=k) for k in range(2)]
    names, store = ["fifo", "srtf"], tmp_path / "runs.sqlite"

    def stop(event) -> None:
        if event.done == pieces:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(instances_, names, time_limit_s=1, store=store, progress=stop)
    kept = Comparison.from_store(store)
    assert 6 - kept.missing - len(kept.unbounded) == pieces
    events: list[Any] = []
    whole = compare(instances_, names, time_limit_s=1, store=store, progress=events.append)
    assert sum(event.stored for event in events) == pieces
    assert whole.missing == 0
    hold_together(whole)
    done = {(row.instance, row.scheduler): row.objective for row in kept.rows}
    for row in whole.rows:
        if row.scheduler != OPTIMUM:
            assert done.get((row.instance, row.scheduler), row.objective) == row.objective
