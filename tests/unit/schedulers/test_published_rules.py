"""The rules of DL2's evaluation to the letter, against a reference of our own.

The reference is told from the description of the rules, in their own terms - slots of nodes, epochs
- in plain dicts and lists, and shares no code and no structure with alloc. Cases are random: small
and large clusters, CPU-only jobs, most tasks 4 to 16, smooth tables and tables that fall, dip and
fail like measured ones, true epochs beside estimated ones.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances.dl2_case import Dl2Case, Dl2Job, dl2_case
from alloc.schedulers import make_scheduler
from alloc.simulation import SimulationResult, simulate

CASES_A_RULE = 40
MODELS: dict[str, dict[str, Any]] = {
    # a, b, c, d, e of 1 / (a/w + b + c w/u + d w + e u) samples/s: this project's own fits to the
    # measurements of Peng et al.
    "resnet-50": {"fit": (0.00394, 0.01306, 0.01317, 0.0002304, 0.0), "gpu": True, "size": 115},
    "vgg-16": {"fit": (0.01695, 0.01816, 0.02523, 0.004237, 0.0), "gpu": True, "size": 115},
    "seq2seq": {"fit": (0.001038, 0.0008451, 0.0003787, 0.0002054, 0.0), "gpu": True, "size": 780},
    "cnn-text": {"fit": (0.007464, 0.006891, 0.000475, 0.0003388, 0.0), "gpu": False, "size": 193},
    "dssm": {"fit": (0.00155, 0.0004598, 0.0, 2.852e-05, 8.803e-07), "gpu": False, "size": 349},
    "wlm": {"fit": (0.0005874, 0.001496, 0.0009914, 0.0001924, 0.0), "gpu": True, "size": 165},
}
TS = 1200.0


def draw_table(
    name: str, shape: str, dead: float, most: int, rng: np.random.Generator
) -> dict[Any, float]:
    """Speeds by (u, w) up to one beyond `most`, some of them 0."""
    a, b, c, d, e = MODELS[name]["fit"]
    table = {}
    for u in range(1, most + 2):
        for w in range(1, most + 2):
            uu, ww = (u, w) if shape == "smooth" else (u - 1 + u % 2, w - 1 + w % 2)
            speed = 1 / (a / ww + b + c * ww / uu + d * ww + e * uu)
            if shape == "rough":
                speed *= float(rng.uniform(0.6, 1.1))
                if rng.random() < dead and u != w:
                    speed = 0.0
            table[u, w] = speed
    return table


@cache
def draw(seed: int) -> dict[str, Any]:
    """A case in DL2's terms."""
    rng = np.random.default_rng(seed)
    most = int(rng.integers(4, 17))
    shape = str(rng.choice(["smooth", "plateaus", "rough"]))
    error = float(rng.choice([0.0, 0.2, 0.4]))
    # A job that outlives its estimate is drawn into a dead pair by Optimus' rule, and never ends.
    dead = 0.0 if error else 0.03
    tables = {name: draw_table(name, shape, dead, most, rng) for name in MODELS}
    jobs = []
    lengths: dict[str, float] = {}
    for number in range(int(rng.integers(3, 13))):
        name = str(rng.choice(list(MODELS)))
        epochs = float(rng.uniform(0.4, 6.0)) * tables[name][2, 2] * TS / MODELS[name]["size"]
        if seed % 3 == 0:
            # As with fixed lengths: jobs of a model are all alike, and ties are common.
            epochs = lengths.setdefault(name, epochs)
        jobs.append(
            {
                "id": f"job-{number}",
                "model": name,
                "arrival": int(rng.integers(0, 5)),
                "epochs": epochs,
                "real": epochs * (1 + error * float(rng.uniform(-1, 1))),
            }
        )
    return {"nodes": int(rng.integers(1, 14)), "most": most, "tables": tables, "jobs": jobs}


# The reference.


def reference(rule: str, case: dict[str, Any]) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Ends in slots as DL2 counts them, and who had (w, u) in each slot."""
    jobs = {job["id"]: dict(job, rank=k, done=0.0, w=0, u=0) for k, job in enumerate(case["jobs"])}
    ends: dict[str, float] = {}
    history = []
    t = 0
    while len(ends) < len(jobs):
        nodes = [[0, 0] for _ in range(case["nodes"])]
        here = [j for j in jobs.values() if j["arrival"] <= t and j["id"] not in ends]
        here.sort(key=lambda j: (j["arrival"], j["rank"]))
        for job in here:
            job["w"] = job["u"] = 0
        if here:
            {"drf": drf, "fifo": fifo, "srtf-dl2": srtf, "tetris": tetris, "optimus": optimus}[
                rule
            ](case, here, nodes)
            history.append({j["id"]: (j["w"], j["u"]) for j in here if j["w"] and j["u"]})
        for job in here:
            epochs = per_slot(case, job, job["w"], job["u"])
            if job["done"] + epochs > job["real"] and epochs > 0:
                ends[job["id"]] = t - 1 + (job["real"] - job["done"]) / epochs
            job["done"] += epochs
        t += 1
        assert t < 2000, "the case never ends"
    return ends, history


def per_slot(case: dict[str, Any], job: dict[str, Any], w: int, u: int) -> float:
    if w == 0 or u == 0:
        return 0.0
    return float(case["tables"][job["model"]][u, w] * TS / MODELS[job["model"]]["size"])


def slots_of(job: dict[str, Any], w: int, u: int) -> tuple[int, int]:
    return 2 * w + 2 * u, 4 * w if MODELS[job["model"]]["gpu"] else 0


def put(nodes: list[list[int]], job: dict[str, Any], w: int, u: int) -> bool:
    """Try the least loaded node, and no other."""
    node = min(range(len(nodes)), key=lambda n: (sum(nodes[n]), n))
    return put_on(nodes[node], job, w, u)


def put_on(node: list[int], job: dict[str, Any], w: int, u: int) -> bool:
    cpu, gpu = slots_of(job, w, u)
    if node[0] + cpu > 8 or node[1] + gpu > 8:
        return False
    node[0] += cpu
    node[1] += gpu
    job["w"] += w
    job["u"] += u
    return True


def drf(case: dict[str, Any], jobs: list[Any], nodes: list[list[int]]) -> None:
    total = 8 * len(nodes)
    open_ = list(jobs)
    while open_:
        job = min(
            open_,
            key=lambda j: (max(slots_of(j, j["w"], j["u"])) / total, j["arrival"], j["rank"]),
        )
        if not put(nodes, job, 1, 1):
            return
        if job["w"] >= case["most"] or job["u"] >= case["most"]:
            open_.remove(job)


def fifo(case: dict[str, Any], jobs: list[Any], nodes: list[list[int]]) -> None:
    for job in jobs:
        for _ in range(case["most"]):
            if not put(nodes, job, 1, 1):
                return


def srtf(case: dict[str, Any], jobs: list[Any], nodes: list[list[int]]) -> None:
    def left(job: Any) -> tuple[float, int, int]:
        return 1 - job["done"] / job["epochs"], job["arrival"], job["rank"]

    fifo(case, sorted(jobs, key=left), nodes)


def tetris(case: dict[str, Any], jobs: list[Any], nodes: list[list[int]]) -> None:
    for node in nodes:
        while True:
            align, rem = {}, {}
            for job in jobs:
                cpu, gpu = slots_of(job, 1, 1)
                align[job["id"]] = (8 - node[0]) * cpu + (8 - node[1]) * gpu
                rem[job["id"]] = (cpu + gpu) * (1 - job["done"] / job["epochs"])
            weight = (sum(align.values()) / len(jobs)) / (sum(rem.values()) / len(jobs))
            if weight == 0:
                break
            order = sorted(
                jobs,
                key=lambda j: (
                    -(align[j["id"]] + weight * rem[j["id"]]),
                    j["arrival"],
                    j["rank"],
                ),
            )
            best = next((j for j in order if j["w"] < case["most"]), None)
            if best is None or not put_on(node, best, 1, 1):
                break


def optimus(case: dict[str, Any], jobs: list[Any], nodes: list[list[int]]) -> None:
    def offer(job: Any) -> tuple[float, str]:
        if job["w"] == 0:
            return float(2**31 - 1), "w"
        if job["u"] == 0:
            return float(2**31 - 1), "u"
        left = job["epochs"] - job["done"]

        def time(w: int, u: int) -> float:
            e = per_slot(case, job, w, u)
            return left / e if e else math.copysign(math.inf, left)

        now = time(job["w"], job["u"])
        by_worker = now - time(job["w"] + 1, job["u"])
        by_ps = now - time(job["w"], job["u"] + 1)
        return (by_ps, "u") if by_ps >= by_worker else (by_worker, "w")

    offers = {job["rank"]: offer(job) for job in jobs}
    while offers:
        rank = min(offers, key=lambda r: (-offers[r][0], [j["rank"] for j in jobs].index(r)))
        gain, role = offers.pop(rank)
        job = next(j for j in jobs if j["rank"] == rank)
        if gain <= 0:
            return
        if job[role] >= case["most"]:
            continue
        if not put(nodes, job, int(role == "w"), int(role == "u")):
            return
        offers[rank] = offer(job)


# Alloc's side.


@cache
def as_case(seed: int, *, what_if: bool = True) -> Dl2Case:
    case = draw(seed)
    jobs = [
        Dl2Job(
            job["id"],
            job["model"],
            job["arrival"],
            job["epochs"],
            job["real"],
            MODELS[job["model"]]["size"],
            worker=(2, 4) if MODELS[job["model"]]["gpu"] else (2, 0),
        )
        for job in case["jobs"]
    ]
    return dl2_case(
        "random",
        jobs,
        case["tables"],
        num_nodes=case["nodes"],
        max_workers=case["most"],
        what_if=what_if,
    )


def run(rule: str, made: Dl2Case) -> SimulationResult:
    return simulate(
        made.instance,
        make_scheduler(rule, rules="dl2", max_tasks=made.max_tasks),
        knowledge="estimate",
        seen_work=made.seen_work,
    )


def slots_had(result: SimulationResult) -> list[dict[str, tuple[int, int]]]:
    """Who had (w, u) in each slot that was decided."""
    had: dict[int, dict[str, tuple[int, int]]] = {}
    for ran in result.schedule.runs:
        configuration = result.instance.job(ran.job).configurations[ran.configuration]
        pair = (configuration.num_tasks("worker"), configuration.num_tasks("ps"))
        for slot in range(round(ran.start_s / TS), round(ran.end_s / TS)):
            had.setdefault(slot, {})[ran.job] = pair
    return [had[slot] for slot in sorted(had)]


@pytest.mark.long
@pytest.mark.parametrize("rule", ["drf", "fifo", "srtf-dl2", "tetris", "optimus"])
def test_rule_does_what_dl2s_evaluation_does(rule: str) -> None:
    """Decisions are equal slot by slot, and completions within 1e-6 slots, in random cases."""
    crowded = overrun = at_most = 0
    for seed in range(CASES_A_RULE):
        case = draw(seed)
        ends, history = reference(rule, case)
        made = as_case(seed)
        result = run(rule, made)
        assert slots_had(result) == [slot for slot in history if slot], f"seed {seed}"
        found = made.ends(result.completion_s)
        assert found == pytest.approx(ends, abs=1e-6), f"seed {seed}"
        crowded += any(len(slot) < len(case["jobs"]) // 2 for slot in history)
        overrun += any(job["real"] > 1.1 * job["epochs"] for job in case["jobs"])
        at_most += any(case["most"] in pair for slot in history for pair in slot.values())
    # The corners are in the cases.
    assert min(crowded, overrun, at_most) >= 5


def test_without_its_what_ifs_optimus_stops_at_the_limit() -> None:
    """Only a table that goes one task beyond tells whether a role at its limit is the better."""
    differs = 0
    for seed in range(12):
        case = draw(seed)
        made = as_case(seed, what_if=False)
        ends = reference("optimus", case)[0]
        found = made.ends(run("optimus", made).completion_s)
        differs += found != pytest.approx(ends, abs=1e-6)
    assert 0 < differs < 12


def test_role_at_its_limit_takes_the_other_with_it() -> None:
    """By hand: the worker would help most but is at its limit, so no PS is given either."""
    table = {(1, 1): 1.0, (2, 1): 1.1, (1, 2): 3.0, (2, 2): 3.1}
    made = dl2_case(
        "limit", [Dl2Job("a", "m", 0, 2400.0)], {"m": table}, num_nodes=2, max_workers=1
    )
    assert run("optimus", made).completion_s == {"a": 2400.0}
    beyond = dl2_case(
        "limit",
        [Dl2Job("a", "m", 0, 2400.0)],
        {"m": {**table, (1, 3): 9.0, (2, 3): 9.0, (3, 1): 1.0, (3, 2): 1.0}},
        num_nodes=4,
        max_workers=2,
        what_if=True,
    )
    # (1, 1), then a worker: 3.0. A third worker promises 9.0 and is out of bounds; the PS that
    # would bring 3.1 is not asked for any more.
    assert run("optimus", beyond).completion_s == {"a": 800.0}


def test_ends_are_counted_as_dl2_counts_them() -> None:
    """A job that arrives in slot 2 and takes one and a half slots ends at 2.5: JCT is 1.5."""
    made = dl2_case(
        "ends", [Dl2Job("a", "m", 2, 1800.0)], {"m": lambda u, w: 1.0}, num_nodes=1, max_workers=1
    )
    assert made.ends(run("fifo", made).completion_s) == {"a": 2.5}
    assert made.ends({"a": None}) == {"a": None}


def test_estimate_is_what_policies_see() -> None:
    """The SRTF of DL2 serves the job with the smaller remaining fraction of its *estimate*."""
    jobs = [Dl2Job("a", "m", 0, 4800.0, 2400.0), Dl2Job("b", "m", 0, 2400.0, 4800.0)]
    made = dl2_case("seen", jobs, {"m": lambda u, w: 1.0}, num_nodes=1, max_workers=1)
    # One node holds both in slot 0 and 1; then b is at 0 % of its estimate, and a is complete.
    result = run("srtf-dl2", made)
    assert made.ends(result.completion_s) == {"a": 1.0, "b": 3.0}
    assert result.work_error == 1.0
    assert result.knowledge == "estimate"


def test_dead_pairs_hold_resources() -> None:
    """A pair without a speed does no work, and DRF walks through it all the same."""
    table = {(u, w): 1.0 for u in range(1, 4) for w in range(1, 4) if (u, w) != (2, 2)}
    jobs = [Dl2Job("a", "m", 0, 1200.0), Dl2Job("b", "m", 0, 1200.0)]
    stuck = dl2_case("dead", jobs, {"m": table}, num_nodes=2, max_workers=3)
    # Four bundles fit: two each, which is the dead pair, so nobody gets anywhere.
    result = simulate(
        stuck.instance,
        make_scheduler("drf", rules="dl2"),
        knowledge="estimate",
        seen_work=stuck.seen_work,
        max_time_s=6000.0,
    )
    assert result.unfinished == ("a", "b")
    assert simulate(stuck.instance, make_scheduler("drf")).unfinished == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": "dl3"}, 'rules "dl3" are unknown; did you mean "dl2"'),
        ({"rules": "dl2", "skip": True}, "skip departs from the rules of DL2"),
        ({"max_tasks": 4}, 'max_tasks is 4 but rules is "alloc"'),
        ({"rules": "dl2", "max_tasks": 0}, "max_tasks"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        make_scheduler("drf", **options)


def test_what_dl2_does_not_know_is_refused() -> None:
    """Continuous time and gangs have no meaning under these rules."""
    made = dl2_case("m", [Dl2Job("a", "m", 0, 1.0)], {"m": lambda u, w: 1.0}, num_nodes=1)
    policy = make_scheduler("drf", rules="dl2")
    with pytest.raises(UnsupportedFeatureError, match="decide slot by slot"):
        simulate(made.instance.replace(slot_s=None), policy)
    job = made.instance.jobs[0].replace(elasticity="moldable")
    with pytest.raises(UnsupportedFeatureError, match="malleable jobs of workers and"):
        simulate(made.instance.replace(jobs=(job,)), policy)


def test_cases_are_checked() -> None:
    with pytest.raises(InstanceError, match=r'model "n", which has no speed; did you|give one'):
        dl2_case("m", [Dl2Job("a", "n", 0, 1.0)], {"m": lambda u, w: 1.0}, num_nodes=1)
    with pytest.raises(InstanceError, match="6 GPU slots, no multiple of the 4"):
        dl2_case(
            "m",
            [Dl2Job("a", "m", 0, 1.0, worker=(2, 6))],
            {"m": lambda u, w: 1.0},
            num_nodes=1,
        )
    with pytest.raises(InstanceError, match="epochs"):
        Dl2Job("a", "m", 0, 0.0)
    one_a_slot = dl2_case(
        "m",
        [Dl2Job("a", "m", 0, 1.0, worker=(2, 6))],
        {"m": lambda u, w: 1.0},
        num_nodes=1,
        slots_per_gpu=1,
    )
    assert one_a_slot.instance.topology.num_gpus == 8


def test_tetris_counts_whole_slots_on_nodes_of_any_size() -> None:
    """Two bundles of 8 slots score the same, so the first job goes first.

    As fractions of 10 slots, 0.1 + 0.7 is less than 0.4 + 0.4.
    """
    jobs = [
        Dl2Job("lopsided", "model", 0, 1.0, worker=(0, 7), ps=(1, 0)),
        Dl2Job("even", "model", 0, 1.0, worker=(2, 4), ps=(2, 0)),
    ]
    case = dl2_case(
        "ten slots",
        jobs,
        {"model": {(1, 1): 1.0}},
        num_nodes=1,
        max_workers=1,
        slot_s=1.0,
        node_slots=(10, 10),
        slots_per_gpu=1,
    )
    policy = make_scheduler("tetris", rules="dl2", max_tasks=case.max_tasks)
    ends = case.ends(simulate(case.instance, policy).completion_s)
    assert ends == {"lopsided": 0.0, "even": 1.0}
