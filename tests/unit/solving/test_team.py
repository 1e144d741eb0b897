"""Searches elsewhere beside the one here: what they begin with, what comes back, what does not."""

import os
import threading
from contextlib import closing

import numpy as np
import pytest
from interrupting import ctrl_c_at
from placement_oracle import random_instance

import alloc
from alloc.instances import load
from alloc.models.malleable.data import slot_data
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_level
from alloc.parallel import workers
from alloc.solving.malleable.column_generation import generate_columns
from alloc.solving.malleable.companions import Companions
from alloc.solving.malleable.improvement import Improver
from alloc.solving.malleable.insertion import Builder
from alloc.solving.malleable.search import Search
from alloc.solving.outcome import Settings
from alloc.solving.placement.companions import Companions as PlacementCompanions
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gang_search import GangSearch, first_placements
from alloc.solving.placement.incumbent import Incumbent
from alloc.solving.team import Team
from benchmarks.rebalancing_sets import rebalancing_set


def told(known, settings, given):
    return os.getpid(), id(known), settings.seed, settings.workers, given


def dies(known, settings):
    os._exit(3)


def never_ends(known, settings):
    threading.Event().wait()


def silent(line: str) -> None:
    """Take a line of progress."""


@pytest.fixture(scope="module")
def started():
    """The worker processes: the same for all tests of this module, once they have started."""
    with workers("loky", 3) as crew, closing(crew.run(os.getpid, [()])) as first:
        return list(first)


@pytest.mark.long
def test_others_get_seeds_of_their_own_and_what_is_known_once(started):
    settings = Settings(time_limit_s=300, seed=5, workers=3)
    known = {"what": "searches begin with"}
    with Team(3, silent) as team:
        seen = []
        for turn in range(2):
            team.ask(told, settings, known, turn)
            seen.append(team.collect())
        assert team.collect() == []
    for turn, answers in enumerate(seen):
        assert [given for *_, given in answers] == [turn, turn]
        assert [seed for _, _, seed, _, _ in answers] == [6 + 2 * turn, 7 + 2 * turn]
        assert all(pid != os.getpid() and count == 1 for pid, _, _, count, _ in answers)
    # In one process what is known is one object, however many turns begin with it.
    assert len({(pid, one) for answers in seen for pid, one, *_ in answers}) == len(
        {pid for answers in seen for pid, *_ in answers}
    )


@pytest.mark.long
def test_the_death_of_a_worker_leaves_the_search_here_alone(started):
    lines: list[str] = []
    with Team(2, lines.append) as team:
        team.ask(dies, Settings(time_limit_s=300), None)
        assert team.collect() == []
        assert team.others == 0
        team.ask(told, Settings(time_limit_s=300), None, 1)
        assert team.collect() == []
    assert lines == ["a worker process died; the search goes on in this one alone"]


@pytest.mark.long
def test_an_answer_that_does_not_come_by_the_limit_is_not_waited_for(started):
    with Team(2, silent) as team:
        team.ask(never_ends, Settings(time_limit_s=0.2), None)
        assert team.collect() == []
    with Team(2, silent) as team:
        team.ask(told, Settings(time_limit_s=300), None, "again")
        assert [given for *_, given in team.collect()] == ["again"]


def test_where_no_process_can_work_beside_this_one_the_search_is_alone():
    lines: list[str] = []
    with workers("threading", 2), Team(2, lines.append) as team:
        team.ask(told, Settings(), None, 1)
        assert team.collect() == []
        assert team.others == 0
    assert lines == ["no worker can start beside this one; the search is alone"]


def gang_search(instance, seed: int) -> tuple[float, list[str]]:
    """Return the cost after whole jobs were put elsewhere by two workers, and what was said."""
    level = parse_level("domains_spanned + 0.01 moves")
    problem = Problem(PlacementData.of(instance))
    best = Incumbent(problem, level, ())
    for counts in first_placements(problem, level):
        best.offer_counts(counts)
    settings = Settings(time_limit_s=300, seed=seed, workers=2)
    lines: list[str] = []
    companions = PlacementCompanions(best, 2, lines.append)
    with companions.team:
        search = GangSearch(problem, best, seed, silent)
        # Costs are 0 or more, so this bound is never reached: only tries end the search.
        companions.gangs(search, settings, -1.0, patience=200)
    assert not alloc.verify(instance, best.allocation)
    return best.cost, lines


@pytest.mark.long
def test_the_same_seed_and_number_of_workers_give_the_same_placement(started):
    instance = random_instance(np.random.default_rng(3))
    runs = [gang_search(instance, 7) for _ in range(2)]
    assert runs[0][0] == runs[1][0]
    turns = [[line.split(" of a search")[0] for line in lines] for _, lines in runs]
    assert turns[0] == turns[1]
    assert "turns" in turns[0][-1]


class Idle(Improver):
    """A search that finds nothing."""

    def search(self, seconds, report):
        """Do nothing."""


@pytest.mark.long
def test_a_plan_that_another_worker_finds_is_the_next_incumbent(started):
    """The search here stands at its first plan: what gets better comes from elsewhere."""
    instance = load("elastic-small/04")
    data = slot_data(instance, "weighted_jct", ())
    settings = Settings(time_limit_s=300, workers=2)
    start = Search(data, "weighted_jct", settings, None, silent)
    plan = start._first_plan()
    assert plan is not None
    num_slots = 3 * max(int(column.profile.completion) for column in plan.values())
    relaxation = generate_columns(data, num_slots, list(plan.values()), settings, 60, silent)
    improver = Idle(data, Builder(data, num_slots), relaxation, plan, settings)
    before = improver.value
    lines: list[str] = []
    companions = Companions(2, lines.append)
    with companions.team:
        companions.search(improver, 250)
    assert relaxation.bound <= improver.value < before
    assert any("another worker" in line for line in lines)
    start.plan = improver.plan
    assert not alloc.verify(instance, start.schedule())


@pytest.mark.long
def test_ctrl_c_ends_the_other_searches_and_keeps_the_placement(started):
    result = alloc.solve(
        rebalancing_set(60, 1),
        "placement",
        objective="balance + 0.05 moves",
        limits=alloc.Limits(seconds=300, workers=2),
        progress=ctrl_c_at(": exchanges"),
    )
    assert result.certificate.limit == "interrupt"
    assert result.certificate.verified
    assert result.solution is not None
