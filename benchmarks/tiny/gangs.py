"""One gang beside what runs: a place exists if and only if some split of its tasks keeps all rules.

Whether a split keeps the rules is for the checker to say; it knows nothing of how one is found.
"""

from __future__ import annotations

import itertools
from random import Random

from placement_brute_force import splits

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving.gang import decide_for
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup
from benchmarks.tiny.family import Answer, Family, Truth

_SLICES = ((), (), (Slice("rack", 2),), (Slice("pod", 4), Slice("host", 2)), (Slice("host", 2),))
_SPREADS = ((), (), (Spread("host", 2),), (Spread("rack", 3), Spread("pod", 4)))


def make(rng: Random, scaled: bool, large: bool) -> Instance:
    """Return racks and pods of hosts in use, and a gang of one or two groups with rules."""
    racks = [rng.randint(1, 8 if large else 2) for _ in range(rng.randint(1, 3))]
    kind = HostType("server", rng.choice((2, 4)), "h100", 1000 * rng.randint(2, 8))
    pods = [Domain(f"p{k}", "pod") for k in range((len(racks) + 1) // 2)]
    made = [Domain(f"r{k}", "rack", f"p{k // 2}") for k in range(len(racks))]
    hosts = [Host(f"h{r}{k}", "server", f"r{r}") for r, n in enumerate(racks) for k in range(n)]
    if not large:
        hosts = hosts[:4]
    jobs, running = [], []
    for host in hosts:
        gpus, cpu = rng.randint(0, kind.num_gpus), 1000 * rng.randint(0, 2)
        if gpus or cpu:
            ways = (Configuration((TaskGroup("x", 1, MILLI * gpus, cpu),), 1.0),)
            jobs.append(Job(f"on {host.id}", 0.0, 1.0, ways))
            running.append(Assignment(jobs[-1].id, 0, (TaskPlacement(host.id, "x", 1),)))
    count = rng.choice((1, 2, 4, 4))
    groups = [TaskGroup("w", count, MILLI * rng.randint(1, 2), 1000 * rng.randint(0, 2))]
    plain = rng.random() < 0.4
    if plain and rng.random() < 0.7:
        groups.append(TaskGroup("ps", rng.randint(1, 2), 0, 1000 * rng.randint(1, 4)))
    slices = () if plain else rng.choice(_SLICES)
    if any(count % cut.size for cut in slices):
        slices = ()
    rules = PlacementRules(
        required=rng.choice((None, "host", "rack", "pod")),
        preferred=None if plain else rng.choice((None, "rack")),
        slices=slices,
        spread=() if plain else rng.choice(_SPREADS),
    )
    gang = Job("gang", 0.0, 1.0, (Configuration(tuple(groups), 1.0),), placement=rules)
    # A cluster that is too small for the gang even when empty is no question here.
    spare = HostType("spare", 16, "h100", 64_000)
    topology = Topology(
        "small",
        (kind, spare),
        (*hosts, Host("spare", "spare", "r0")),
        ("pod", "rack"),
        (*pods, *made),
    )
    filler = Job("on spare", 0.0, 1.0, (Configuration((TaskGroup("x", 1, 16000, 64000),), 1.0),))
    full = Assignment("on spare", 0, (TaskPlacement("spare", "x", 1),))
    return Instance("small", topology, (gang, filler, *jobs), running=(full, *running))


def truth(instance: Instance) -> Truth:
    """Try every split of the tasks over the hosts; 1 if one keeps every rule."""
    hosts = [host.id for host in instance.topology.hosts]
    groups = instance.job("gang").configurations[0].tasks
    for choice in itertools.product(*(splits(group.count, len(hosts)) for group in groups)):
        if any(counts[-1] for counts in choice):
            continue  # the spare host is full
        tasks = tuple(
            TaskPlacement(host, group.role, n)
            for group, counts in zip(groups, choice, strict=True)
            for host, n in zip(hosts, counts, strict=True)
            if n
        )
        if not _verify(instance, Assignment("gang", 0, tasks)):
            return Truth((1.0,), ("max",))
    return Truth((0.0,), ("max",))


def _verify(instance: Instance, assignment: Assignment) -> list[object]:
    return list(verify(instance, Allocation((*instance.running, assignment))))


def solve(instance: Instance, way: str, seconds: float) -> Answer:
    """Decide on the gang; what is not placed must be explained."""
    decision = decide_for(instance, "gang")
    if decision.assignment is None:
        silent = [] if decision.explanation is not None else ["no reason is given"]
        return Answer(("optimal",), (0.0,), (0.0,), violations=silent)
    broken = _verify(instance, decision.assignment)
    return Answer(("optimal",), (1.0,), (1.0,), violations=broken)


GANG = Family("gang", make, ("auto",), truth, solve)
