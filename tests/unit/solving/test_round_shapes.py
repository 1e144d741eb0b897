"""What rates do not change is worked out once per shape: the same round comes out of it."""

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from work_counts import counted

from alloc.models.capacity import burden, pareto_front, pareto_fronts, shape_of, use_order
from alloc.models.round import data as round_module
from alloc.models.round.data import make_round_data
from alloc.objectives import round_utility
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("two", HostType("h", 4, "generic", 8000, 0), 2)


def round_of(*jobs: Job):
    return make_round_data(HOSTS, jobs, 10.0, round_utility("progress"), {})


def with_rates(table, *rates):
    return tuple(dataclasses.replace(c, rate=r) for c, r in zip(table, rates, strict=True))


def test_jobs_of_one_shape_are_pruned_by_their_own_rates():
    """Two jobs share tasks and differ in rates: what is dominated for one is not for the other."""
    table = (rigid_gang(1), rigid_gang(2), rigid_gang(4))
    rising, falling = with_rates(table, 1.0, 2.0, 3.0), with_rates(table, 3.0, 2.0, 1.0)
    assert shape_of(rising) == shape_of(falling)
    data = round_of(Job("up", 0.0, 99.0, rising), Job("down", 0.0, 99.0, falling))
    assert np.diff(data.first).tolist() == [3, 1]


def test_shared_and_separate_tasks_give_the_same_round():
    """Identity only saves time: jobs that were read one by one from a file get the same answer."""
    shared = (rigid_gang(1), rigid_gang(2), rigid_gang(4))
    rates = [(1.0, 2.0, 2.0), (2.0, 1.0, 5.0)]
    together = [Job(f"j{i}", 0.0, 99.0, with_rates(shared, *r)) for i, r in enumerate(rates)]
    apart = [
        Job(
            f"j{i}",
            0.0,
            99.0,
            tuple(rigid_gang(n, rate=x) for n, x in zip((1, 2, 4), r, strict=True)),
        )
        for i, r in enumerate(rates)
    ]
    one, two = round_of(*together), round_of(*apart)
    assert shape_of(apart[0].configurations) != shape_of(apart[1].configurations)
    for field in ("first", "configuration", "utility", "use"):
        assert np.array_equal(getattr(one, field), getattr(two, field)), field


def test_a_topology_remembers_how_tables_compare(monkeypatch: pytest.MonkeyPatch):
    """The next round with such tables compares nothing again, whatever their rates."""
    hosts = dataclasses.replace(HOSTS, name="remembered")
    table = (rigid_gang(1), rigid_gang(2), rigid_gang(4))
    compared = counted(monkeypatch, round_module, "use_order")

    def of(topology, rates, quotas):
        jobs = [Job("a", 0.0, 99.0, with_rates(table, *rates), tenant="t")]
        return make_round_data(topology, jobs, 10.0, round_utility("progress"), quotas)

    first = of(hosts, (1.0, 2.0, 3.0), {})
    again = of(hosts, (3.0, 2.0, 1.0), {})
    assert len(compared) == 1
    assert [np.diff(one.first).tolist() for one in (first, again)] == [[3], [1]]
    # A quota is another row, and what does not fit into it cannot run.
    of(hosts, (1.0, 2.0, 3.0), {"t": 8000})
    assert np.diff(of(hosts, (1.0, 2.0, 3.0), {"t": 3000}).first).tolist() == [2]
    assert len(compared) == 3
    for other in (copy.deepcopy(hosts), pickle.loads(pickle.dumps(hosts))):
        assert other == hosts
        assert not other.known_burdens
    assert len(hosts.known_burdens) == 3


def test_what_a_topology_remembers_of_tables_has_an_end(monkeypatch: pytest.MonkeyPatch):
    """Shapes that come once and never again, and very long tables, are not kept."""
    monkeypatch.setattr(round_module, "_SHAPES", 3)
    monkeypatch.setattr(round_module, "_COMPARED", 2)
    hosts = dataclasses.replace(HOSTS, name="forgets")
    for count in range(1, 9):
        table = (rigid_gang(1, cpu_milli_per_gpu=100 * count),) * (3 if count == 8 else 1)
        make_round_data(hosts, (Job("a", 0.0, 9.0, table),), 10.0, round_utility("progress"), {})
        assert 1 <= len(hosts.known_burdens) <= 3
    assert len(hosts.known_burdens) == 1


def test_shapes_tell_gpu_types_and_levels_apart():
    """A configuration tied to a type or a level takes other rows and is harder to place."""
    plain = (rigid_gang(1),)
    typed = (dataclasses.replace(plain[0], gpu_type="generic"),)
    tied = (dataclasses.replace(plain[0], within="host"),)
    assert len({shape_of(table) for table in (plain, typed, tied)}) == 3


def test_the_burden_names_the_largest_task_types_and_levels():
    """By hand: one group is its own largest task; of two, the largest of each resource counts."""
    both = Configuration(
        (TaskGroup("worker", 2, 1000, 500), TaskGroup("ps", 3, 0, 4000)), 1.0, within="host"
    )
    single = Configuration((TaskGroup("worker", 4, 2000, 100),), 1.0, gpu_type="generic")
    use = np.array([[2000.0], [8000.0]])
    assert burden([both, single], use).tolist() == [
        [2000.0, 1000.0, 4000.0, 0.0, 1.0, 0.0],
        [8000.0, 2000.0, 100.0, 0.0, 0.0, 1.0],
    ]


@pytest.mark.parametrize("pairs", [0, 500, 2**15])
@pytest.mark.parametrize("seed", range(40))
def test_fronts_of_many_tables_are_what_no_pair_dominates(seed, pairs, monkeypatch):
    """Compared two by two as `pareto_front` did, with equal uses, equal rates and rates of 0.

    However many pairs are looked at at once.
    """
    monkeypatch.setattr("alloc.models.capacity._PAIRS", pairs)
    rng = np.random.default_rng(seed)
    count, tables = int(rng.integers(0, 30)), int(rng.integers(1, 6))
    use = rng.integers(0, int(rng.integers(2, 6)), (count, 3)).astype(float)
    rates = rng.integers(0, int(rng.integers(2, 40)), (tables, count)).astype(float)
    dear = np.asarray((use[:, None] <= use[None]).all(axis=2))
    np.fill_diagonal(dear, False)
    first = dear & (~dear.T | np.tri(count, k=-1, dtype=bool).T)
    order = use_order(use)
    for rate, front in zip(rates, pareto_fronts(order, rates), strict=True):
        dominates = dear & (rate[:, None] > rate) | first & (rate[:, None] == rate)
        expected = np.flatnonzero(~dominates.any(axis=0) & (rate > 0))
        assert np.array_equal(np.flatnonzero(front), expected)
        assert np.array_equal(pareto_front(order, rate), expected)


class Lazy:
    """A job whose table is made when it is asked for, and gone afterwards."""

    def __init__(self, *gpus: int) -> None:
        self.gpus, self.tenant = gpus, None

    @property
    def configurations(self):
        return tuple(rigid_gang(n, rate=float(n)) for n in self.gpus)


def test_tables_that_are_gone_are_not_taken_for_those_that_come_after_them():
    """An identity is used again once its table has died: rounds must not go by it alone."""
    amounts = np.array([[99.0] * 4, [1.0] * 4, [99.0] * 4])
    utility = round_utility("progress")
    jobs: Any = [Lazy(1), Lazy(2), Lazy(4), Lazy(1, 2)]
    assert utility.by_work
    data = make_round_data(HOSTS, jobs, 10.0, utility, {}, amounts=amounts)
    assert len(data.fronts.tables) == len(jobs)
    fronts = data.fronts
    key, table = next(iter(fronts.tables.items()))
    assert fronts.are_of(HOSTS, {}, dict(fronts.tables), fronts.options)
    another = {**fronts.tables, key: (*table,)}
    assert not fronts.are_of(HOSTS, {}, another, fronts.options)
