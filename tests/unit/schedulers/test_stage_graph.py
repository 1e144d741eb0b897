"""Kind stage-graph/1: what a network over graphs is shown, and what comes of its scores."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.instances.projects import generate_staged
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned import stage_tree
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.stage_graph import (
    StageGraphDecider,
    StageGraphParameters,
)
from alloc.schedulers.learned.stage_graph_features import (
    CLIP,
    JOB_FEATURES,
    STAGE_FEATURES,
    WAY_FEATURES,
)
from alloc.schedulers.learned.stage_tree import (
    COLUMNS,
    Leaf,
    Split,
    StageTree,
    read_tree,
    tree_columns,
    write_tree,
)
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, Stage, TaskGroup

BOX = flat_cluster("box", HostType("box", 4, "generic"), 1)


def ways(*sizes: int, power: float = 1.0) -> tuple[Configuration, ...]:
    """Return configurations of so many GPUs, faster by a power of their number."""
    return tuple(Configuration((TaskGroup("w", n, 1000),), n**power) for n in sizes)


def job(job_id: str, *stages: Stage, arrival_s: float = 0.0, weight: float = 1.0) -> Job:
    """Return a job whose stages choose their GPUs at their start."""
    fields: dict[str, Any] = {"elasticity": "moldable", "preemptible": False}
    return Job(job_id, arrival_s, weight=weight, stages=stages, **fields)


def diamond() -> Instance:
    """Return two jobs: a before b and c, both before d; and one heavy stage."""
    first = job(
        "q",
        Stage("a", 4.0, ways(1, 2, 4)),
        Stage("b", 2.0, ways(1, 2), ("a",)),
        Stage("c", 6.0, ways(1), ("a",)),
        Stage("d", 2.0, ways(1), ("b", "c")),
    )
    return Instance("two", BOX, (first, job("r", Stage("x", 8.0, ways(2, power=0.5)), weight=3.0)))


class Watching:
    """A network that keeps what it is shown, and scores by a column of the ways."""

    def __init__(self, column: str = "gpus", sign: float = 1.0) -> None:
        self.shown: list[dict[str, np.ndarray]] = []
        self.column, self.sign = WAY_FEATURES.index(column), sign

    def __call__(self, shown: Any) -> dict[str, np.ndarray]:
        """Return the scores."""
        self.shown.append(dict(shown))
        return {"score": self.sign * shown["ways"][:, self.column]}


def decider(network: Any, **parameters: bool) -> StageGraphDecider:
    """Return what decides with a network."""
    return StageGraphDecider(network, StageGraphParameters(**parameters), "watched")


def test_the_first_question_by_hand():
    """Two stages may start: a on 1, 2 or 4 GPUs and x on 2; nothing runs, so nobody waits."""
    network = Watching()
    run = simulate(diamond(), decider(network))
    first = network.shown[0]
    assert run.verified
    assert first["follows"].tolist() == [
        [0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    assert first["stages_of"].tolist() == [[1, 1, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert first["stage_of"].argmax(axis=1).tolist() == [0, 0, 0, 4]
    # x takes 8 / sqrt(2) s on 2 GPUs, so 16 / sqrt(2) GPU seconds; the others take their work.
    work = np.array([4.0, 2.0, 6.0, 2.0, 16 / np.sqrt(2)])
    unit = work.mean()

    def column(tensor: str, names: tuple[str, ...], name: str) -> np.ndarray:
        return first[tensor][:, names.index(name)]

    assert np.exp(column("stages", STAGE_FEATURES, "work")) * unit == pytest.approx(work, rel=1e-5)
    paths = np.exp(column("stages", STAGE_FEATURES, "path")) * unit
    assert paths == pytest.approx([1 + 6 + 2, 1 + 2, 6 + 2, 2, 8 / np.sqrt(2)], rel=1e-5)
    assert column("stages", STAGE_FEATURES, "ready").tolist() == [1, 0, 0, 0, 1]
    waits_for = np.expm1(column("stages", STAGE_FEATURES, "waits_for"))
    assert waits_for == pytest.approx([0, 1, 1, 2, 0])
    left = np.array([14.0, 16 / np.sqrt(2)])
    assert np.exp(column("jobs", JOB_FEATURES, "left")) == pytest.approx(left / left.mean())
    assert np.exp(column("jobs", JOB_FEATURES, "weight")) == pytest.approx([0.5, 1.5])
    assert column("ways", WAY_FEATURES, "gpus").tolist() == [0.25, 0.5, 1.0, 0.5]
    assert np.exp(column("ways", WAY_FEATURES, "slower")) == pytest.approx([4, 2, 1, 1])
    assert column("ways", WAY_FEATURES, "waits").tolist() == [0, 0, 0, 0]


def test_the_best_scored_way_starts_and_the_network_is_asked_again():
    """The most GPUs first: a on all four; then nothing fits until it ends."""
    run = simulate(diamond(), decider(Watching("gpus"), may_wait=False))
    starts = {r.job: (r.start_s, r.configuration) for r in run.schedule.runs}
    assert starts["q/a"] == (0.0, 2)
    assert starts["r/x"][0] == 1.0
    fewest = simulate(diamond(), decider(Watching("gpus", -1.0), may_wait=False))
    starts = {r.job: (r.start_s, r.configuration) for r in fewest.schedule.runs}
    assert starts["q/a"] == (0.0, 0)
    assert starts["r/x"] == (0.0, 0)


def test_who_may_wait_does_so_only_while_something_runs():
    """A network that always waits still gets every job done: one stage at a time."""
    run = simulate(diamond(), decider(Watching("waits")))
    runs = sorted(run.schedule.runs, key=lambda r: r.start_s)
    assert len(runs) == 5
    assert all(a.end_s <= b.start_s for a, b in pairwise(runs))
    eager = Watching("waits")
    simulate(diamond(), decider(eager, may_wait=False))
    assert not any(shown["ways"][:, -1].any() for shown in eager.shown)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_what_is_shown_knows_no_unit_of_time_or_work(factor):
    """All times so many times as long, and all rates: the same questions."""
    plain, other = Watching(), Watching()
    simulate(generate_staged(num_jobs=4, seed=3), decider(plain))
    instance = generate_staged(num_jobs=4, seed=3)
    longer = tuple(
        one.replace(
            arrival_s=one.arrival_s * factor,
            due_date_s=None,
            stages=tuple(
                Stage(s.id, s.work * factor, s.configurations, s.predecessors) for s in one.stages
            ),
        )
        for one in instance.jobs
    )
    simulate(instance.replace(jobs=longer), decider(other))
    assert len(plain.shown) == len(other.shown)
    for a, b in zip(plain.shown, other.shown, strict=True):
        for name in a:
            assert a[name] == pytest.approx(b[name], abs=1e-4)
            assert np.abs(a[name]).max(initial=0.0) <= CLIP


def test_random_scores_make_schedules_that_the_checker_passes_in_slots_too():
    """Jobs without stages, slots, stages that may pause: whatever is chosen, no rule is broken."""
    rng = np.random.default_rng(0)

    def network(shown: Any) -> dict[str, np.ndarray]:
        return {"score": rng.normal(size=len(shown["ways"])).astype("f4")}

    instance = generate_staged(num_jobs=5, num_hosts=3, seed=5)
    alone = Job("alone", 5.0, 60.0, instance.jobs[0].stages[0].configurations)
    loose = tuple(one.replace(preemptible=True, elasticity="malleable") for one in instance.jobs)
    for jobs in (instance.jobs, loose):
        for slot_s in (None, 50.0):
            asked = instance.replace(jobs=(*jobs, alone), slot_s=slot_s)
            assert simulate(asked, decider(network)).verified


def test_the_spec_says_what_is_shown():
    network = Watching()
    simulate(diamond(), decider(network))
    spec = feature_spec("stage-graph/1")
    for shown in network.shown:
        assert set(shown) == {tensor.name for tensor in spec.inputs}
        assert all(tensor.misfit(shown[tensor.name]) is None for tensor in spec.inputs)


def test_the_columns_of_the_tree_by_hand():
    network = Watching()
    simulate(diamond(), decider(network))
    rows = {name: tree_columns(network.shown[0])[:, k] for k, name in enumerate(COLUMNS)}
    # r has less work left for its weight: 11.3 / 3 < 14.
    assert rows["jobs before"].tolist() == [1, 1, 1, 0]
    assert rows["stages before"].tolist() == [0, 0, 0, 0]
    assert rows["slower"] == pytest.approx([4, 2, 1, 1])
    assert rows["thrift"] == pytest.approx([1, 1, 1, 1])
    assert rows["ready"] == pytest.approx([2, 2, 2, 2])
    assert rows["weight"] == pytest.approx([0.5, 0.5, 0.5, 1.5])


def test_a_tree_written_is_the_tree_read(tmp_path):
    tree = StageTree(Split("slower", 1.5, Leaf(0.0), Split("waits", 0.5, Leaf(-1.0), Leaf(-2.5))))
    write_tree(tree, tmp_path / "tree.json")
    assert read_tree(tmp_path / "tree.json") == tree
    assert tree.num_leaves == 3
    assert "slower <= 1.5: score 0.00" in tree.text
    rows = np.zeros((3, len(COLUMNS)))
    rows[:, COLUMNS.index("slower")] = (1.0, 2.0, 0.0)
    rows[1:, COLUMNS.index("waits")] = (0.0, 1.0)
    assert tree.score(rows).tolist() == [0.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ({"score": True}, "neither a score nor a question"),
        ({"column": "slow", "at": 1, "below": {"score": 0}, "above": {"score": 1}}, '"slower"'),
        ({"column": "slower", "at": 1, "below": {"score": 0}}, "neither a score nor a question"),
        ("x", "neither a score nor a question"),
    ],
)
def test_what_is_no_tree_is_refused(tmp_path, root, said):
    path = tmp_path / "tree.json"
    path.write_text(json.dumps({"stage_tree_version": 1, "may_wait": True, "root": root}))
    with pytest.raises(InstanceError, match=said):
        make_scheduler("decima-tree", tree=str(path))
    path.write_text("{}")
    with pytest.raises(InstanceError, match="is no tree for stages"):
        make_scheduler("decima-tree", tree=str(path))


def test_ties_of_a_tree_go_to_the_job_with_least_work_for_its_weight(tmp_path: Path):
    """A tree of one leaf is a rule: that job, its longest path, as fast as can be."""
    write_tree(StageTree(Leaf(0.0), may_wait=False), tmp_path / "one.json")
    run = simulate(diamond(), make_scheduler("decima-tree", tree=str(tmp_path / "one.json")))
    starts = {r.job: (r.start_s, r.configuration) for r in run.schedule.runs}
    assert starts["r/x"] == (0.0, 0)
    assert starts["q/a"] == (0.0, 1), "as fast as what is left allows"


def test_ties_of_many_ways_never_outweigh_a_score(monkeypatch):
    """The best of a thousand ways is behind all others but in its score, by one last decimal."""
    rows = np.zeros((1000, len(COLUMNS)))
    rows[-1, COLUMNS.index("jobs before")], rows[-1, COLUMNS.index("GPUs")] = 9.0, 1.0
    monkeypatch.setattr(stage_tree, "tree_columns", lambda shown: rows)
    score = StageTree(Split("GPUs", 0.5, Leaf(0.0), Leaf(1e-4)))({})["score"]
    assert score.argmax() == 999
    assert (np.diff(score[:999]) < 0).all()


@pytest.mark.parametrize("name", ["decima", "decima-tree"])
def test_what_alloc_ships_is_better_than_first_come_first_served(name):
    """Held-out instances of a busy cluster; how much better in general the benchmark says."""
    values = {name: 0.0, "fifo": 0.0}
    for seed in range(200_100, 200_106):
        instance = generate_staged(num_jobs=12, num_hosts=3, mean_gap_s=20.0, seed=seed)
        for scheduler in values:
            schedule = simulate(instance, scheduler).schedule
            values[scheduler] += objective("weighted_jct").evaluate(instance, schedule)
    assert values[name] < 0.9 * values["fifo"]
