"""What a scheduler sees, built by hand as another program would."""

from __future__ import annotations

import numpy as np

from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers import ClusterState, JobTable, JobView
from alloc.topology import HostType, flat_cluster
from alloc.workload import rigid_gang

HOSTS = flat_cluster("one", HostType("h", 4, "generic", 8000, 0), 1)


def view(job_id: str, arrival_s: float, position: int = 0, **changes: object) -> JobView:
    return JobView(
        job_id,
        arrival_s,
        (rigid_gang(2),),
        1.0,
        None,
        None,
        position=position,
        **changes,  # type: ignore[arg-type]
    )


def test_table_keeps_the_order_of_arrival() -> None:
    """A paused job goes back to its place in the queue, not to the end of it."""
    table = JobTable([view("a", 0.0), view("b", 1.0), view("c", 1.0, 1)])
    early = table[0]
    table.remove("a")
    assert [v.id for v in table] == ["b", "c"]
    table.add(early)
    assert [v.id for v in table] == ["a", "b", "c"]
    assert [v.id for v in table[1:]] == ["b", "c"]
    assert table[-1].id == "c"
    assert len(table) == 3


def test_table_refreshes_what_it_hands_out() -> None:
    """A view is brought up to the present when it is looked at, and not before."""
    looked_at: list[str] = []
    table = JobTable([view("a", 0.0), view("b", 1.0)], refresh=lambda v: looked_at.append(v.id))
    assert looked_at == []
    assert table.get("b") is not None
    assert table.get("nobody") is None
    assert looked_at == ["b"]
    assert next(iter(table)).id == "a"
    assert looked_at == ["b", "a"]


def test_state_derives_who_runs_and_what_tenants_hold() -> None:
    """A state made by hand needs only the jobs; in rounds nobody holds anything yet."""
    running = view("a", 0.0, current=Assignment("a", 0), tenant="red")
    waiting = view("b", 0.0, 1, tenant="red")
    for slot_s, held in ((None, 2000), (10.0, 0)):
        state = ClusterState(
            now_s=0.0,
            slot_s=slot_s,
            jobs=[running, waiting],
            topology=HOSTS,
            pool=HostPool(HOSTS),
            quotas={"red": 4000, "blue": 1000},
            knowledge="none",
            rng=np.random.default_rng(0),
        )
        assert [v.id for v in state.waiting] == ["b"]
        assert [v.id for v in state.running] == ["a"]
        assert state.held == {"red": held, "blue": 0}
