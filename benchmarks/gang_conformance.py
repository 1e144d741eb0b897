"""Decisions, explanations, placements and moves of tiny worlds, held against plain enumeration.

For each seed a random world (`benchmarks.gang_worlds`) is asked for in full: the decision on each
waiting job, the words of `explain`, every cure that it names applied to the instance, what `place`
says and what `defrag --for` moves. `benchmarks.gang_oracle` answers each question by enumeration.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from alloc.errors import InstanceError
from alloc.objectives import parse_goal
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.solving.gang import Explanation, decide_for
from alloc.solving.placing.defragmentation import make_room
from alloc.solving.placing.explain import explain
from alloc.solving.placing.place import place
from alloc.verification import check_claims
from benchmarks.environment import describe_environment
from benchmarks.gang_cures import parts_of, with_parts, without, worlds_with
from benchmarks.gang_oracle import Oracle, standing_of
from benchmarks.gang_worlds import random_world
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # two thousand worlds take some minutes; the tests have 150 of them

GOAL = "gpus_placed then moves"


def faults(world: Instance, asked: Counter[str]) -> Iterator[str]:
    """Yield what is false about a world, each fault with its kind in front.

    Parameters
    ----------
    world
        A tiny instance.
    asked
        Counts what was held against the oracle, by kind.
    """
    running = {a.job for a in world.running}
    waiting = [job.id for job in world.jobs if job.id not in running]
    for name in waiting:
        yield from _tried("decision", partial(_decision, world, name, asked))
        yield from _tried("explain", partial(_explanation, world, name, asked))
    yield from _tried("defrag", partial(_room, world, waiting[0], asked))
    yield from _tried("place", partial(_placement, world, waiting, asked))


def _tried(kind: str, ask: Callable[[], Iterator[str]]) -> Iterator[str]:
    try:
        yield from [f"{kind}: {fault}" for fault in ask()]
    except Exception as error:  # a crash of any kind is a finding
        yield f"{kind}: crash: {type(error).__name__}: {error}"


def _decision(world: Instance, name: str, asked: Counter[str]) -> Iterator[str]:
    asked["decisions"] += 1
    oracle = Oracle(world)
    assignment = decide_for(world, name).assignment
    if (assignment is not None) != oracle.starts(name):
        yield f"{name} {'starts' if assignment else 'waits'}, and enumeration says otherwise"
    elif assignment is not None:
        standing = standing_of(world, assignment)
        configuration = world.job(name).configurations[standing[0]]
        placed: Counter[str] = Counter()
        for (role, _), n in standing[1].items():
            placed[role] += n
        if placed != configuration.counts:
            yield f"{name} has {dict(placed)} tasks placed of {configuration.counts}"
        if not oracle.allowed({**oracle.running, name: standing}):
            yield f"{name} breaks a rule on {assignment.tasks}"


def _explanation(world: Instance, name: str, asked: Counter[str]) -> Iterator[str]:
    oracle = Oracle(world)
    found = explain(world, name, moves=False)
    if (found is None) != oracle.starts(name):
        yield f"{name}: {found.sentence if found else 'can start now'}, and that is false"
    elif found is not None:
        yield from _words(world, name, found, asked)
        moving = explain(world, name)
        assert moving is not None
        for cure in moving.relaxations:
            if cure.sentence.startswith("moving"):
                asked["cures by moves"] += 1
                if not _moves_do(world, name, cure.sentence):
                    yield f"{name}: false cure: {cure.sentence}"


def _words(world: Instance, name: str, found: Explanation, asked: Counter[str]) -> Iterator[str]:
    """Hold each claim of an explanation against the world in which it would be true."""
    for cure in found.relaxations:
        asked["joint cures" if parts_of(cure.sentence) else "cures"] += 1
        if not any(_starts(cured, name) for cured in _valid(world, name, cure.sentence)):
            yield f"{name}: false cure: {cure.sentence}"
        parts = parts_of(cure.sentence)
        for k in range(len(parts)):
            try:
                fewer = with_parts(world, name, [*parts[:k], *parts[k + 1 :]])
            except InstanceError:
                continue
            if _starts(fewer, name):
                yield f"{name}: {parts[k]} is needless in: {cure.sentence}"
    if found.relaxations and found.relaxations[0].sentence not in found.sentence:
        yield f"{name}: the cheapest cure is not in the sentence: {found.sentence}"
    asked["conflicts"] += 1
    conflict = set(found.conflict)
    others = {*_REQUIREMENTS} - conflict
    if _starts_without(world, name, others):
        yield f"{name}: {found.conflict} is no conflict"
    for one in conflict:
        if not _starts_without(world, name, others | {one}):
            yield f"{name}: {one} is needless in the conflict {found.conflict}"
    yield from _facts(world, name, found.sentence, asked)


_REQUIREMENTS = (
    "affinity",
    "spread",
    "slices",
    "memory",
    "CPU",
    "GPU type",
    "quota",
    "level",
    "running jobs",
)


def _valid(world: Instance, name: str, sentence: str) -> Iterator[Instance]:
    try:
        yield from worlds_with(world, name, sentence)
    except InstanceError:
        return  # a cure that makes no valid instance is not a cure


def _starts(world: Instance, name: str) -> bool:
    return Oracle(world).starts(name)


def _starts_without(world: Instance, name: str, requirements: set[str]) -> bool:
    freed = without(world, name, requirements)
    return Oracle(freed).starts(name, capacity="running jobs" not in requirements)


def _facts(world: Instance, name: str, sentence: str, asked: Counter[str]) -> Iterator[str]:
    """Check the numbers that a sentence gives beside its cures."""
    asked["facts"] += 1
    if "e+" in sentence or re.search(r"\d\.\d{4}", sentence):
        yield f"{name}: a number nobody can mean: {sentence}"
    oracle = Oracle(world)
    used = oracle.load(oracle.running)
    free = [(own[0] - u[0]) / 1000 for own, u in zip(oracle.capacity, used, strict=True)]
    if where := re.search(r"(?:the cluster|best \w+ (\S+)) has ([\d.]+) free", sentence):
        hosts = [h for h, own in enumerate(oracle.domains) if where[1] in (None, *own.values())]
        if not hosts or sum(free[h] for h in hosts) != float(where[2]):
            yield f"{name}: not so many free GPUs: {sentence}"
    if left := re.search(r"has ([\d.]+) GPUs? of quota left", sentence):
        tenant = next(t for t in world.tenants if t.name == world.job(name).tenant)
        held = oracle.held(oracle.running)
        most = tenant.gpu_quota_milli + tenant.borrowing_milli - held[tenant.name]
        if tenant.cohort is not None:
            most = min(
                most,
                sum(
                    t.gpu_quota_milli - held[t.name]
                    for t in world.tenants
                    if t.cohort == tenant.cohort
                ),
            )
        if float(left[1]) != max(most, 0) / 1000:
            yield f"{name}: not so much quota: {sentence}"


def _moves_do(world: Instance, name: str, sentence: str) -> bool:
    """Return whether moving the jobs named, and as few tasks as said, lets a job start."""
    words = re.fullmatch(r"moving jobs? (.+) frees? it, (\d+) tasks?( \(perhaps.*)?", sentence)
    if words is None:
        return False
    oracle, number = Oracle(world), int(words[2])
    those = oracle.best([name], must=True, movers=words[1].split(", "))
    least = oracle.best([name], must=True)
    assert least is not None or those is None
    return those is not None and those[1] == number and (bool(words[3]) or least == those)


def _room(world: Instance, name: str, asked: Counter[str]) -> Iterator[str]:
    asked["defrag"] += 1
    found = make_room(world, name)
    best = Oracle(world).best([name], must=True)
    blocked = found.blocked or ""
    if "block each other" in blocked:
        return
    if found.migration is None:
        if best is not None:
            yield f"{name} gets in with {best[1]} moves, but: {blocked or found.result.conflict}"
        return
    if best is None:
        yield f"{name} is let in, and enumeration finds no way"
        return
    solution = found.result.solution
    assert isinstance(solution, Allocation)
    oracle = Oracle(world)
    if not oracle.allowed({a.job: standing_of(world, a) for a in solution.assignments}):
        yield f"{name}: the new placement breaks a rule"
    if found.result.certificate.objective != best[1]:
        yield f"{name}: {found.result.certificate.objective} moves instead of {best[1]}"


def _placement(world: Instance, waiting: list[str], asked: Counter[str]) -> Iterator[str]:
    asked["place"] += 1
    placement = place(world, GOAL)
    solution, oracle = placement.result.solution, Oracle(world)
    assert world.moves is not None
    best = oracle.best(waiting, budget=world.moves.budget, resize=True)
    if not isinstance(solution, Allocation) or best is None:
        if best is not None:
            yield f"no placement: {placement.result.certificate.status}"
        return
    if not oracle.allowed({a.job: standing_of(world, a) for a in solution.assignments}):
        yield "the placement breaks a rule"
    values = [level.evaluate(world, solution) for level in parse_goal(GOAL).levels]
    if values != [best[0] / 1000, best[1]]:
        yield f"{values} GPUs and moves instead of {best[0] / 1000:g} and {best[1]}"
    for claim in check_claims(world, placement.result):
        yield f"false claim: {claim}"
    settled = world.replace(running=solution.assignments)
    for name, reason in solution.unplaced.items():
        asked["reasons"] += 1
        starts = Oracle(settled).starts(name)
        if starts != ("would fit" in reason):
            yield f"{name}: {reason}, and that is false"
        elif not starts:
            explanation = decide_for(settled, name).explanation
            if explanation is None or explanation.sentence != reason:
                yield f"{name}: another reason than explain gives: {reason}"
            else:
                yield from _words(settled, name, explanation, asked)


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is false, and the count; return 0 if nothing is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gang_conformance")
    parser.add_argument("--seeds", type=int, default=2000, help="number of worlds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--show", type=int, default=20, help="faults to print")
    arguments = parser.parse_args(argv)
    print(describe_environment())
    asked: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    wrong = 0
    start = time.process_time()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        found = list(faults(random_world(seed), asked))
        wrong += bool(found)
        for fault in found:
            kinds[": ".join(fault.split(": ")[:1] + re.findall("crash|false cure", fault))] += 1
            if kinds.total() <= arguments.show:
                print(f"seed {seed}: {fault}", flush=True)
    print(f"{time.process_time() - start:.0f} s of CPU; asked: {dict(asked)}")
    print(f"faults by kind: {dict(kinds)}")
    return conclude(
        [
            Verdict(
                f"{arguments.seeds} worlds from seed {arguments.first} without a false answer",
                f"{kinds.total()} faults in {wrong} worlds",
                not kinds,
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
