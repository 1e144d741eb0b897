"""Fairness: one client's crowd of jobs must not starve another's single one."""

from collections import Counter

import pytest
from server_harness import act, wait_for

from alloc.server.fairness import FairQueue
from alloc.server.tables import open_database
from alloc.server.tokens import add_token


def served(queue, jobs, seconds=lambda job: 1.0):
    """Run the next jobs one after the other; return whose they were."""
    order = []
    for _ in range(jobs):
        job = queue.take()
        order.append(job.partition("-")[0])
        queue.finish(job, seconds(job))
    return order


def fill(queue, client, number, weight=1.0):
    for k in range(number):
        queue.put(client, f"{client}-{k}", weight)


def test_a_crowd_delays_nobody_else():
    """A hundred jobs wait, one comes later: it is next but one at the latest."""
    queue = FairQueue()
    fill(queue, "crowd", 100)
    served(queue, 10)
    fill(queue, "single", 1)
    assert "single" in served(queue, 2)


def test_jobs_of_a_client_keep_their_order():
    queue = FairQueue()
    fill(queue, "a", 5)
    assert [queue.take() for _ in range(5)] == [f"a-{k}" for k in range(5)]
    assert queue.take() is None


def test_worker_time_is_shared_not_the_number_of_jobs():
    """Who sends jobs of ten seconds gets one for ten of who sends jobs of one second."""
    queue = FairQueue()
    fill(queue, "long", 50)
    fill(queue, "short", 500)
    order = Counter(served(queue, 110, lambda job: 10.0 if job.startswith("long") else 1.0))
    assert order["short"] == pytest.approx(10 * order["long"], rel=0.3)


def test_a_job_counts_with_what_it_took_once_it_is_done():
    """Not with what was guessed before: ten seconds of one client are ten jobs of the other's."""
    queue = FairQueue()
    fill(queue, "long", 2)
    fill(queue, "short", 30)
    order = served(queue, 14, lambda job: 10.0 if job.startswith("long") else 1.0)
    assert order[0] == "long"
    assert 9 <= order[1:].index("long") <= 11


def test_weights_set_the_shares():
    queue = FairQueue()
    fill(queue, "heavy", 100, weight=3.0)
    fill(queue, "light", 100)
    order = Counter(served(queue, 80))
    assert order["heavy"] == pytest.approx(60, abs=2)


def test_absence_saves_up_no_claim():
    """Who comes back after a while gets its share, not all workers until it has caught up."""
    queue = FairQueue()
    fill(queue, "absent", 1)
    served(queue, 1)
    fill(queue, "busy", 300)
    served(queue, 200)
    fill(queue, "absent", 100)
    assert Counter(served(queue, 40))["busy"] >= 18


def test_many_clients_take_turns_while_jobs_run_side_by_side():
    """Eight workers, three clients: jobs that still run count against their clients."""
    queue = FairQueue()
    for client in ("a", "b", "c"):
        fill(queue, client, 50)
    running = [queue.take() for _ in range(8)]
    counts = Counter(job[0] for job in running)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_job_can_leave_the_queue():
    queue = FairQueue()
    fill(queue, "a", 3)
    assert queue.remove("a", "a-1")
    assert not queue.remove("a", "a-1")
    assert not queue.remove("b", "b-0")
    assert len(queue) == queue.waiting_of("a") == 2
    assert list(queue) == ["a-0", "a-2"]
    assert served(queue, 2) == ["a", "a"]


def test_over_http_a_single_job_passes_a_crowd(open_client, settings):
    """Two clients with tokens, one worker: nine jobs of one wait when the other's comes."""
    engine = open_database(settings.database)
    crowd, single = (
        {"Authorization": f"Bearer {add_token(engine, name)}"} for name in ("crowd", "single")
    )
    engine.dispose()
    client = open_client(settings.replace(workers=1))
    first, *_ = [act(client, headers=crowd, act="hold").json() for _ in range(10)]
    late = act(client, headers=single).json()
    client.post(first["links"]["cancel"], headers=crowd)
    client.headers.update(single)
    assert wait_for(client, late["id"])["state"] == "done"
    left = client.get("/v1/jobs", params={"state": "queued"}, headers=crowd).json()["jobs"]
    assert len(left) >= 8
    assert client.get("/v1/jobs", headers=single).json()["jobs"][0]["client"] == "single"
