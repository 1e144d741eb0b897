"""SRTF is shortest remaining time, whoever says it; DL2's rule has a name of its own."""

import pytest

from alloc import simulate
from alloc.errors import InstanceError
from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.policy_choice import PolicyChoiceParameters
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

NODE = HostType("node", 4, "gpu", 64_000, 64_000)


def gang(name: str, arrival_s: float, run_s: float, num_gpus: int) -> Job:
    """Return a rigid gang that runs for so long."""
    table = (Configuration((TaskGroup("worker", num_gpus, 1000),), 1.0),)
    return Job(name, arrival_s, run_s, table)


def ends(scheduler: str, *jobs: Job, slot_s: float | None = None, **options: object) -> dict:
    """Return the completions of gangs on one host of four GPUs."""
    instance = Instance("gangs", flat_cluster("one", NODE, 1), jobs, slot_s=slot_s)
    return dict(simulate(instance, make_scheduler(scheduler, **options)).completion_s)


@pytest.mark.parametrize("slot_s", [None, 10.0])
def test_the_shortest_remaining_time_comes_first(slot_s: float | None) -> None:
    """A short job that arrives late takes the place of a long one, which DL2's rule lets run on."""
    jobs = (gang("long", 0.0, 1000.0, 4), gang("short", 100.0, 50.0, 4))
    assert ends("srtf", *jobs, slot_s=slot_s) == {"long": 1050.0, "short": 150.0}
    assert ends("srtf-dl2", *jobs, slot_s=slot_s) == {"long": 1000.0, "short": 1050.0}


def test_time_and_not_the_share_of_the_work_decides() -> None:
    """Of two new jobs the short one, although both have all of their work left."""
    jobs = (gang("long", 0.0, 100.0, 4), gang("short", 0.0, 10.0, 4))
    assert ends("srtf", *jobs)["short"] == 10.0
    assert ends("srtf-dl2", *jobs)["long"] == 100.0
    assert ends("srtf", *jobs, by="fraction")["long"] == 100.0


def test_a_gang_that_does_not_fit_is_passed_over() -> None:
    """By default GPUs that the next in line cannot use go to the one behind it."""
    jobs = (gang("a", 0.0, 10.0, 2), gang("wide", 0.0, 20.0, 4), gang("b", 0.0, 30.0, 2))
    assert ends("srtf", *jobs) == {"a": 10.0, "wide": 30.0, "b": 50.0}
    assert ends("srtf", *jobs, skip=False) == {"a": 10.0, "wide": 30.0, "b": 60.0}


def test_dl2s_rule_is_the_fraction_without_passing_over() -> None:
    """`srtf-dl2` is what `srtf` was called before, decision by decision."""
    for seed in range(3):
        instance = generate_elastic("same", num_jobs=6, num_hosts=2, seed=seed)
        before = make_scheduler("srtf", by="fraction", skip=False)
        same = simulate(instance, make_scheduler("srtf-dl2")).schedule
        assert simulate(instance, before).schedule == same


def test_a_policy_file_that_means_dl2s_rule_must_say_so() -> None:
    """A selector trained when "srtf" was the fraction is refused, not read with another meaning."""
    with pytest.raises(ValueError, match=r'"srtf" is not in the pool; did you mean "srtf-dl2"'):
        PolicyChoiceParameters(policies=("fifo", "srtf"))


def test_text_is_no_yes_or_no() -> None:
    """`skip=False` on the command line is a text, which Python takes for true."""
    with pytest.raises(InstanceError, match='skip is "False"; it must be true or false'):
        make_scheduler("srtf", skip="False")
