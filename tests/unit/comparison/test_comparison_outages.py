"""The bound where hosts fail: it holds for every schedule, and no solved schedule stands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from alloc.comparison import compare
from alloc.comparison.bounds import SIMULATED
from alloc.comparison.settings import OPTIMUM
from alloc.comparison.tables import certificate_sentence, gap_tables, to_markdown
from alloc.errors import UnsupportedFeatureError
from alloc.families import instance_families, require_family
from alloc.instances import generate_elastic, generate_gangs
from alloc.instances.outages import with_checkpoints, with_failures
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.outages import Outage
from alloc.solving import solve
from alloc.solving.model import model
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

WHOLE = (Configuration((TaskGroup("worker", 1, 1000),), 1.0),)
BOX = HostType("box", num_gpus=1, gpu_type="h100")


@pytest.mark.long
def test_a_failure_may_help_jobs_that_must_not_pause() -> None:
    """The trap: without outages the long job blocks the host, and the bound would be false.

    The host fails for a moment when the short job has just arrived, of more weight: it goes first.
    """
    jobs = (
        Job("long", 0.0, 100.0, WHOLE, elasticity="rigid", preemptible=False, checkpoint_s=0.0),
        Job("short", 10.0, 1.0, WHOLE, elasticity="rigid", preemptible=False, weight=5.0),
    )
    quiet = Instance("trap", flat_cluster("c", BOX, 1), jobs)
    best = solve(quiet, "moldable", objective="weighted_jct").certificate.objective
    failing = quiet.replace(outages=(Outage("host-0", 10.0, 10.5),))
    found = compare([failing], ["srtf"], time_limit_s=1.0)
    row = next(row for row in found.rows if row.scheduler == "srtf")
    assert best is not None
    assert row.objective < best, "the failure helps"
    assert row.bound is not None
    assert row.bound <= row.objective


@pytest.mark.long
@pytest.mark.parametrize("slot_s", [300.0, None])
def test_no_row_beats_the_bound_and_the_best_row_is_the_best_known(slot_s: float | None) -> None:
    """Nor does the best schedule known use a host that is down: it is a simulated one."""
    elastic = generate_elastic("e", num_jobs=4, num_hosts=2, max_workers=2, max_ps=2)
    gangs = generate_gangs(
        "g", num_jobs=8, num_hosts=2, gpus={4: 1, 8: 1}, run_s=((0.0, 900.0), (1.0, 3e3))
    )
    instance = elastic if slot_s else gangs
    failing = with_failures(with_checkpoints(instance, 300.0, 5.0), mtbf_s=4000.0, repair_s=900.0)
    assert failing.outages
    found = compare([failing], ["fifo", "srtf", "easy-backfill"], time_limit_s=1.0)
    assert not [row.error for row in found.rows if row.error]
    values = {row.scheduler: row.objective for row in found.rows}
    assert values[OPTIMUM] == min(values.values())
    bound = found.bound(failing.name)
    assert bound.certificate is not None
    assert bound.value is not None
    assert 0 < bound.value <= values[OPTIMUM]
    assert bound.certificate.fingerprint == failing.fingerprint
    assert bound.schedule is not None
    assert verify(failing, bound.schedule) == []
    assert bound.source is not None
    assert "without its outages" in to_markdown(gap_tables(found)[0])
    assert any(row.metrics.get("failures") for row in found.rows)


def test_a_stored_bound_still_says_whose_schedule_it_is(tmp_path: Path) -> None:
    job = Job("a", 0.0, 60.0, WHOLE, elasticity="rigid")
    failing = Instance("w", flat_cluster("c", BOX, 1), (job,), outages=(Outage("host-0", 7.0, 9),))
    sentences = set()
    for _ in range(2):
        found = compare([failing], ["fifo"], time_limit_s=1.0, store=tmp_path / "s.sqlite")
        assert found.bound("w").source == SIMULATED
        sentences.add(certificate_sentence(found.bound("w")))
    assert len(sentences) == 1


def test_where_every_schedule_is_left_unfinished_the_bound_has_none() -> None:
    """The bound is there, and the optimum's row says that no schedule is."""
    job = Job("a", 0.0, 100.0, WHOLE, elasticity="rigid")
    failing = Instance("w", flat_cluster("c", BOX, 1), (job,), outages=(Outage("host-0", 50.0),))
    found = compare([failing], ["fifo"], time_limit_s=1.0)
    bound = found.bound("w")
    assert (bound.value, bound.schedule) == (100.0, None)
    assert "No schedule was found" in certificate_sentence(bound)
    assert SIMULATED not in certificate_sentence(bound)


@pytest.mark.parametrize("name", instance_families())
def test_no_family_answers_an_instance_with_outages(name: str) -> None:
    """None models them, and an answer that uses a host which is down would be worse than none."""
    gangs = generate_gangs("g", num_jobs=2, num_hosts=2, gpus={8: 1})
    failing = gangs.replace(outages=(Outage(gangs.topology.hosts[0].id, 0.0),))
    with pytest.raises(UnsupportedFeatureError, match="does not model outages, which host"):
        solve(failing, name)
    has_model = "pyomo" in require_family(name).models
    why = "does not model outages, which host" if has_model else "has no pyomo model"
    with pytest.raises(UnsupportedFeatureError, match=why):
        model(failing, name)
