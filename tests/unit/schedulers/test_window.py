"""DL2's window: what is shown, what may be done, and where tasks go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.schedulers import ClusterState, Decision, Knowledge, make_scheduler
from alloc.schedulers.learned.kinds import feature_spec, policy_kind
from alloc.schedulers.learned.stepwise import StepwiseDecider
from alloc.schedulers.learned.window import Reply, WindowSlot
from alloc.schedulers.learned.window_features import ENCODINGS, WindowFeatures
from alloc.simulation import Simulation, simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

NODE = HostType("node", 2, "generic", 8000, 0)
SLOT_S = 1200.0


def table(
    most: int, gpu_milli: int = 1000, missing: tuple[tuple[int, int], ...] = ()
) -> tuple[Configuration, ...]:
    """Every pair of up to `most` workers and PSs but the missing ones, at rate w + u."""
    return tuple(
        Configuration(
            (TaskGroup("worker", w, gpu_milli, 2000), TaskGroup("ps", u, 0, 2000)), float(w + u)
        )
        for w in range(1, most + 1)
        for u in range(1, most + 1)
        if (w, u) not in missing
    )


def job(name: str, model: str = "resnet-50", arrival_s: float = 0.0, **changes: Any) -> Job:
    return Job(name, arrival_s, 24_000.0, table(3), model=model).replace(**changes)


def instance(*jobs: Job, nodes: int = 4, **changes: Any) -> Instance:
    cluster = flat_cluster("nodes", NODE, nodes)
    return Instance("window", cluster, jobs, slot_s=SLOT_S).replace(**changes)


def opened(features: WindowFeatures, given: Instance, **options: Any) -> tuple[WindowSlot, Any]:
    driven = Simulation(given, **options)
    slot = WindowSlot(features)
    state = driven.next_decision()
    assert state is not None
    slot.open(state)
    return slot, driven


BARE = WindowFeatures(window=3, max_tasks=3, initial_bundle=False)


def test_slot_by_hand() -> None:
    """Two jobs, four nodes: each action shows where it must, and the decision is what was given."""
    slot, driven = opened(BARE, instance(job("a"), job("b", "dssm")))
    assert slot.observation[:, 0].tolist() == [1, 0, 1, 0, 0, 0]
    assert slot.observation[:, 1].tolist() == [7, 0, 1, 0, 0, 0]
    assert not slot.observation[:, 2].any()
    assert slot.mask.tolist() == [True] * 6 + [False] * 3 + [True]
    assert slot.act(0) is Reply.GRANTED
    assert slot.act(1) is Reply.GRANTED
    assert slot.act(5) is Reply.GRANTED
    # a has 1 GPU of 8; b too, for its worker takes one as well.
    assert slot.observation[2:, 0].tolist() == [1, 0.125, 1, 1]
    assert slot.observation[2:, 1].tolist() == [1, 0.125, 1, 1]
    assert slot.act(9) is Reply.ENDED
    decision = slot.close()
    assert [(a.job, a.configuration) for a in decision.assign] == [("a", 0), ("b", 0)]
    # Always the least loaded host: a's worker on the first, its PS on the second, b on the third.
    assert [[t.host for t in a.tasks] for a in decision.assign] == [
        ["host-0", "host-1"],
        ["host-2", "host-2"],
    ]
    driven.apply(decision)
    state = driven.next_decision()
    slot.open(state)
    # A slot later each has done 2 * 1200 of 24000.
    assert slot.observation[:, 0].tolist() == pytest.approx([1, 1, 0.9, 0, 0, 0])


def test_slot_begins_with_a_bundle_for_everybody() -> None:
    """Also for jobs out of view, in order of arrival, as long as the least loaded host takes it."""
    features = WindowFeatures(window=1, max_tasks=3)
    slot, _ = opened(features, instance(job("a"), job("b"), job("c"), nodes=1))
    assert [(j.workers, j.servers) for j in slot.jobs] == [(1, 1), (1, 1), (0, 0)]
    assert slot.observation[3:, 0].tolist() == [0.5, 1, 1]
    assert slot.act(0) is Reply.MISFIT
    assert [a.job for a in slot.close().assign] == ["a", "b"]


def test_job_that_can_get_no_more_leaves_the_window() -> None:
    """Those behind move up, and the next in line comes into view."""
    features = WindowFeatures(window=2, max_tasks=1, initial_bundle=False)
    jobs = [
        job(name, arrival_s=0.0, work=work) for name, work in zip("abc", (1, 2, 3), strict=True)
    ]
    slot, _ = opened(features, instance(*jobs))
    assert [j.view.id for j in slot.columns] == ["a", "b"]
    assert "c" not in [job.view.id for job in slot.columns]
    slot.act(2)
    assert [j.view.id for j in slot.columns] == ["b", "c"]
    assert [job.view.id for job in slot.columns].index("c") == 1
    assert slot.observation[4:].tolist() == [[0, 0], [0, 0]]
    slot.act(5)
    assert [j.view.id for j in slot.columns] == ["b"]
    assert slot.mask.tolist() == [True] * 3 + [False] * 3 + [True]
    slot.act(0)
    assert slot.mask.tolist() == [False, True, False] + [False] * 3 + [True]
    slot.act(1)
    assert not slot.has_moves
    assert slot.mask.tolist() == [False] * 6 + [True]


@pytest.mark.parametrize("action", [3, 6, 8])
def test_masked_action_changes_nothing(action: int) -> None:
    """Empty columns, and workers beyond the most."""
    slot, _ = opened(BARE, instance(job("a")))
    before = slot.observation.copy()
    assert slot.act(action) is Reply.MASKED
    assert (slot.observation == before).all()
    assert slot.close() == Decision()


def test_gaps_are_stepped_over_whole_or_not_at_all() -> None:
    """From (1, 1) the next bundle of this table is (3, 3): two on the least loaded hosts."""
    gappy = table(3, missing=((2, 2), (2, 1), (1, 2)))
    slot, _ = opened(BARE, instance(job("a", configurations=gappy), nodes=4))
    slot.act(2)
    assert slot.columns[0].cell.steps == (2, 2, 2)
    assert slot.act(2) is Reply.GRANTED
    assert slot.close().assign[0].configuration == len(gappy) - 1
    crowded, _ = opened(BARE, instance(job("a", configurations=gappy), nodes=1))
    crowded.act(2)
    assert crowded.act(2) is Reply.MISFIT, "one more fits, two do not"
    assert crowded.close().assign[0].configuration == 0


def test_tasks_without_partners_run_nothing() -> None:
    """Workers alone hold resources for the slot and do no work, as in DL2."""
    slot, _ = opened(BARE, instance(job("a")))
    slot.act(0)
    slot.act(0)
    assert slot.observation[4, 0] == 2
    assert slot.close() == Decision()


def test_encodings_show_the_same_slot() -> None:
    jobs = [job("a", "vgg-16"), job("b", "something new")]
    given = instance(*jobs)
    seen = {}
    for encoding in ENCODINGS:
        features = WindowFeatures(window=2, max_tasks=3, encoding=encoding)
        slot, driven = opened(features, given)
        driven.apply(slot.close())
        slot.open(driven.next_decision())
        slot.act(0)
        seen[encoding] = slot.observation
        low, high = features.bounds()
        assert (low <= slot.observation).all()
        assert (slot.observation <= high).all()
        assert slot.observation.shape == features.shape
        assert len(features.rows) == features.num_rows
    left = 1 - 2 * SLOT_S / 24_000
    assert seen["released"].T.tolist() == pytest.approx(
        np.array([[2, 1, left, 0.25, 2, 1], [0, 1, left, 0.125, 1, 1]]), abs=1e-6
    )
    assert seen["rescaled"].T.tolist() == pytest.approx(
        np.array([[0.25, 0.01, left, 0.25, 2 / 3, 1 / 3], [0, 0.01, left, 0.125, 1 / 3, 1 / 3]]),
        abs=1e-6,
    )
    # At the highest rate of 6 the 21600 left take 3 slots, and it ran in one.
    one_hot = [0, 1, 0, 0, 0, 0, 0, 0]
    assert seen["paper"].T.tolist() == pytest.approx(
        np.array(
            [
                [*one_hot, 0.01, 0.3, 0.25, 2 / 3, 1 / 3],
                [*([0] * 8), 0.01, 0.3, 0.125, 1 / 3, 1 / 3],
            ]
        ),
        abs=1e-6,
    )


def fresh(slot: WindowSlot) -> tuple[np.ndarray, np.ndarray]:
    """What a slot would show if it were shown anew."""
    kept = slot.observation.copy(), slot.mask.copy(), list(slot.columns), slot._next
    slot._show_all()
    again = slot.observation.copy(), slot.mask.copy()
    slot.observation[:], slot.mask[:] = kept[0], kept[1]
    slot.columns, slot._next = kept[2], kept[3]
    return again


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("shape", ["fit", "gaps"])
def test_updates_in_place_are_what_a_fresh_look_shows(encoding: str, shape: str) -> None:
    """Random play: after every action observation and mask are those of a new look."""
    given = generate_elastic(
        "play", num_jobs=12, num_hosts=7, max_workers=4, max_ps=3, table=shape, seed=3
    )
    features = WindowFeatures(window=4, max_tasks=3, encoding=encoding)
    slot, rng, actions = WindowSlot(features), np.random.default_rng(0), 0
    driven = Simulation(given, knowledge="estimate", work_error=0.4, speed_error=0.1)
    while (state := driven.next_decision()) is not None:
        slot.open(state)
        while slot.has_moves:
            observation, mask = fresh(slot)
            np.testing.assert_array_equal(slot.observation, observation)
            np.testing.assert_array_equal(slot.mask, mask)
            low, high = features.bounds()
            assert (low <= observation).all()
            assert (observation <= high).all()
            actions += 1
            if slot.act(int(rng.choice(np.flatnonzero(slot.mask)))) is not Reply.GRANTED:
                break
        driven.apply(slot.close())
    assert driven.result().unfinished == ()
    assert actions > 100


def test_jobs_that_must_not_be_paused_keep_what_they_have() -> None:
    """They are not shown, and their hosts are taken."""
    slot, driven = opened(BARE, instance(job("a", preemptible=False), job("b"), nodes=1))
    slot.act(2)
    first = slot.close()
    driven.apply(first)
    slot.open(driven.next_decision())
    assert [j.view.id for j in slot.columns] == ["b"]
    assert slot.act(2) is Reply.GRANTED
    assert slot.act(0) is Reply.MISFIT
    decision = slot.close()
    assert decision.assign[0] == first.assign[0]
    assert [a.job for a in decision.assign] == ["a", "b"]


def test_quotas_mask_what_they_forbid() -> None:
    """One GPU for the tenant of a and b: the first worker of either is its last."""
    jobs = [job("a", tenant="t"), job("b", tenant="t"), job("c")]
    slot, _ = opened(BARE, instance(*jobs, tenants=(Tenant("t", 1000),)))
    assert slot.act(0) is Reply.GRANTED
    assert slot.mask.tolist() == [False, True, False] * 2 + [True] * 3 + [True]
    assert slot.act(3) is Reply.MASKED
    held = job("a", tenant="t", preemptible=False)
    slot, driven = opened(BARE, instance(held, *jobs[1:], tenants=(Tenant("t", 1000),)))
    slot.act(2)
    driven.apply(slot.close())
    slot.open(driven.next_decision())
    assert slot.mask.tolist()[:6] == [False, True, False, True, True, True]


class Chooser:
    """A policy with a window, out of a function."""

    name = "chooser"
    needs: Knowledge = "estimate"
    information = "a window"

    def __init__(self, act: Any, features: WindowFeatures) -> None:
        self._decider = StepwiseDecider(act, WindowSlot(features, name=self.name))
        self.reset = self._decider.reset

    def decide(self, state: ClusterState) -> Decision:
        return self._decider.decide(state)


def test_policy_runs_in_the_simulator_and_draws_from_its_seed() -> None:
    """A random window policy: judged like any other, the same seed the same schedule."""
    given = generate_elastic("p", num_jobs=10, num_hosts=6, max_workers=4, max_ps=4, seed=1)

    def act(observation: Any, mask: Any, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(mask)))

    runs = [
        simulate(given, Chooser(act, WindowFeatures(window=5, max_tasks=4)), rng=seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0].schedule == runs[1].schedule != runs[2].schedule
    assert runs[0].verified


def test_bundles_for_nobody_but_the_first_are_fifo() -> None:
    """Always the first column's bundle is what FIFO does, host for host."""
    given = generate_elastic("f", num_jobs=10, num_hosts=4, max_workers=3, max_ps=3, seed=2)
    features = WindowFeatures(window=10, max_tasks=3, initial_bundle=False)

    def act(observation: Any, mask: Any, rng: np.random.Generator) -> int:
        return 2

    by_window = simulate(given, Chooser(act, features))
    fifo = simulate(given, make_scheduler("fifo"))
    assert by_window.schedule == fifo.schedule
    assert by_window.completion_s == fifo.completion_s


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slot_s": None}, "policy agent decides slot by slot"),
        ({"jobs": (job("a", elasticity="moldable"),)}, 'but job "a" is not a malleable job'),
        ({"jobs": (job("a", placement=PlacementRules("host")),)}, "may stand on any host"),
    ],
)
def test_what_no_window_can_do_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        opened(BARE, instance(job("a"), **changes))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_unknown_work_is_refused(encoding: str) -> None:
    features = WindowFeatures(encoding=encoding)
    with pytest.raises(UnsupportedFeatureError, match='job "a": its work is unknown'):
        opened(features, instance(job("a")), knowledge="none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"encoding": "papr"}, 'encoding "papr" is unknown; did you mean "paper"'),
        ({"models": ("a", "a")}, "names one twice"),
    ],
)
def test_features_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        WindowFeatures(**options)


def test_kind_states_its_tensors_and_refuses_overflow_if_told() -> None:
    """The kind of policy files runs on the same window."""
    spec = feature_spec("dl2-window/1", window=2, max_tasks=3, on_overflow="refuse")
    assert [tensor.text for tensor in spec.inputs] == ["float32 [batch, 6, 2]"]
    assert [tensor.text for tensor in spec.outputs] == ["float32 [batch, 7]"]
    kind: Any = policy_kind("dl2-window/1")
    parameters = kind.parameters.model_validate(spec.parameters)

    def network(inputs: Any) -> Any:
        assert inputs["window"].shape == (1, 6, 2)
        return {"logits": np.array([[0, 0, 1, 0, 0, 2, -1]], np.float32)}

    decider = kind.make_decider(network, parameters, name="p")
    decider.reset()
    state = Simulation(instance(job("a"), job("b"), nodes=2)).next_decision()
    # The second column's bundle first; when b has left, a's in the first, which does not fit.
    assert [a.configuration for a in decider.decide(state).assign] == [0, 8]
    crowd = Simulation(instance(job("a"), job("b"), job("c"))).next_decision()
    with pytest.raises(UnsupportedFeatureError, match="sees 2 jobs at a time, and 3 are in"):
        decider.decide(crowd)
