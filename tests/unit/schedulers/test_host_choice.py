"""Kind host-choice/1 in the simulator: jobs stand whole on one host, and nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.learning.environments import GangEpisodes
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.host_choice import HostChoice, HostChoiceParameters, host_rows
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.stepwise import Reply, StepwiseDecider
from alloc.schedulers.state import Knowledge
from alloc.simulation import completion_times_s, simulate

PARAMETERS = HostChoiceParameters(classes=("a", "b"), most=2)


def one_gpu_jobs(slot_s: float | None = None) -> Instance:
    """Return a stream whose jobs fit on a host, of two classes and one of none."""
    source = GangEpisodes(num_jobs=12) if slot_s is None else GangEpisodes(12, slot_s=slot_s)
    stream = source(np.random.default_rng(0))
    names = ("a", "b", None)
    host_milli = int(stream.topology.capacity[:, 0].max())
    jobs = []
    for k, job in enumerate(stream.jobs):
        only = job.configurations[0]
        if only.demand[0] <= host_milli:
            jobs.append(replace(job, model=names[k % 3]))
    return stream.replace(jobs=tuple(jobs))


class Chooser:
    """A scheduler of this kind with an actor from a function."""

    needs: Knowledge = "none"
    name, information = "chooser", "nothing"

    def __init__(self, act: Any) -> None:
        decider = StepwiseDecider(act, HostChoice(PARAMETERS))
        self.decide, self.reset = decider.decide, decider.reset


@pytest.mark.parametrize("slot_s", [None, 900.0])
@pytest.mark.parametrize("last", [False, True])
def test_all_jobs_complete_in_continuous_time_and_in_slots(
    slot_s: float | None, last: bool
) -> None:
    """Whoever waits whenever that is allowed (`last`) still ends: an idle cluster must start."""
    instance = one_gpu_jobs(slot_s)
    assert len(instance.jobs) > 3

    def act(seen: np.ndarray, mask: np.ndarray, rng: np.random.Generator) -> int:
        assert seen.shape == (instance.topology.num_hosts + 1, 9)
        return int(np.flatnonzero(mask)[-1 if last else 0])

    run = simulate(instance, Chooser(act))
    assert len(completion_times_s(run)) == len(instance.jobs)


def test_what_is_shown_is_what_runs() -> None:
    on_host = np.array([[1, 0], [0, 2]])
    seen = host_rows(on_host, np.array([True, False]), 1, np.array([0, 2]), 2)
    assert seen.tolist() == [
        [1, 1, 0.5, 0.5, 0, 0, 1, 0, 0.5],
        [1, 0, 1, 0, 1, 0, 1, 0, 0.5],
        [0, 0, 0, 0, 0, 0, 1, 0, 0.5],
    ]
    assert not host_rows(on_host, np.ones(2, bool), None, np.zeros(2, int), 2)[:, 5:7].any()


def test_a_choice_outside_a_decision_is_not_carried_out() -> None:
    assert HostChoice(PARAMETERS).act(0) is Reply.MASKED


def test_a_job_with_a_choice_of_configurations_is_refused() -> None:
    """Which size to run is not this policy's question."""
    instance = one_gpu_jobs()
    job = instance.jobs[0]
    twice = replace(
        job,
        elasticity="moldable",
        configurations=(job.configurations[0], replace(job.configurations[0], rate=1e-3)),
    )
    with pytest.raises(UnsupportedFeatureError, match="2 configurations to choose from"):
        simulate(instance.replace(jobs=(twice,)), Chooser(lambda seen, mask, rng: 0))


def test_a_class_named_twice_is_refused() -> None:
    with pytest.raises(InstanceError, match="named twice"):
        feature_spec("host-choice/1", classes=("a", "a"))
