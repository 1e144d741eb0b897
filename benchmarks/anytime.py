"""How steadily the placement search gets better: values, bounds and limits over fresh seeds.

Run it with ``python -m benchmarks.anytime --sizes 50,500,2000 --seeds 100:110 --workers 15``. Every
run rebalances (A) or defragments (B) a cluster of `benchmarks.rebalancing_sets` in a process of its
own with one thread. The longest runs start first; after ``--time`` seconds those still under way
end, and the table shows what they had reached.

A run's limit depends on its size (`LIMITS_S`). Beside the value and the gap at the limit the table
shows when the first placement was there, the first value within two seconds beside that of plain
single exchanges, the gap at earlier times, and by how much the limit was passed. With
``--stop-at-target`` a run ends as soon as its gap is reached, which says nothing of limits. With
``--cpu-time`` seconds are CPU seconds, but for limits of single calls of HiGHS: on a busy machine
that shows what a whole core would have done.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.context import SpawnProcess
from pathlib import Path

from alloc.result import Limits
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Ten seeds of three sizes and two goals take nearly three hours of one core."""

GOALS = {"A": "balance + 0.05 moves", "B": "gpu_hosts_used + 0.05 moves"}
LIMITS_S = {50: 60.0, 500: 120.0, 2000: 300.0}
GAPS = {"A": {50: 0.015, 500: 0.04, 2000: 0.08}, "B": {50: 0.005, 500: 0.015, 2000: 0.02}}
"""What is promised at the limit, by goal and number of hosts."""
FIRST_S = 2.0
"""Within so many seconds the first placements are to be no worse than single exchanges."""
CHECKPOINTS_S = (2.0, 5.0, 15.0, 30.0, 60.0, 120.0, 180.0, 240.0)
_GRACE = (0.05, 1.0)
"""How far a limit may be passed: a share of it, and seconds."""
_EVENT = re.compile(r"incumbent (\S+), bound (\S+):")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    """One run: hosts, seed, goal, limit in seconds, gap at which it ends, and whose seconds."""

    hosts: int
    seed: int
    goal: str
    limit_s: float
    stop_at: float
    cpu_time: bool = False

    @property
    def name(self) -> str:
        """A name for people and files."""
        return f"{self.goal}-{self.hosts}-s{self.seed}-{self.limit_s:g}"


def follow(run: Run, file: Path) -> None:
    """Make a run in this process, writing a JSON line for each event to a file."""
    if run.cpu_time:
        time.perf_counter = time.process_time
    # Imported here, in the process of the run, after threads and clock are set.
    import alloc
    from benchmarks.rebalancing_sets import rebalancing_set
    from benchmarks.single_exchanges import single_exchanges

    # What a first solve loads is not in the limit of the second.
    alloc.solve(
        rebalancing_set(10, 0), "placement", objective=GOALS["A"], limits=Limits(seconds=0.5)
    )
    instance = rebalancing_set(run.hosts, run.seed)
    with file.open("w", encoding="utf-8") as out:

        def write(**event: object) -> None:
            out.write(json.dumps(event) + "\n")
            out.flush()

        write(kind="plain", value=single_exchanges(instance, run.goal, FIRST_S))
        began, began_cpu = time.perf_counter(), time.process_time()

        def progress(line: str) -> None:
            found = _EVENT.search(line)
            if found is None:
                return
            value, bound = float(found[1]), float(found[2])
            wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
            write(kind="event", wall=wall, cpu=cpu, value=value, bound=bound)
            if (value - bound) / max(value, 1e-9) <= run.stop_at:
                raise KeyboardInterrupt  # the search keeps what it has, and certifies it

        certificate = alloc.solve(
            instance,
            "placement",
            objective=GOALS[run.goal],
            limits=Limits(seconds=run.limit_s, seed=run.seed),
            progress=progress,
        ).certificate
        write(
            kind="end",
            wall=time.perf_counter() - began,
            cpu=time.process_time() - began_cpu,
            value=certificate.objective,
            bound=certificate.bound,
            verified=certificate.verified,
        )


@dataclass(frozen=True)
class Story:
    """What a run wrote: the value of plain exchanges, events and the end.

    Each event is (wall s, CPU s, value, bound); `end` is None where the run was cut off.
    """

    run: Run
    plain: float
    events: tuple[tuple[float, float, float, float], ...]
    end: tuple[float, float, float, float] | None
    verified: bool

    def at(self, seconds: float) -> tuple[float, float] | None:
        """Return value and bound known after some seconds of wall time, or None."""
        ends = () if self.end is None else (self.end,)
        known = [event for event in (*self.events, *ends) if event[0] <= seconds]
        return (known[-1][2], known[-1][3]) if known else None

    @property
    def last(self) -> tuple[float, float, float, float]:
        """The end, or the last event."""
        return self.end or self.events[-1]

    @property
    def overrun_s(self) -> float:
        """Seconds past the limit, below 0 if it ended early."""
        return self.last[0] - self.run.limit_s


def read_story(run: Run, file: Path) -> Story | None:
    """Read what a run has written; None if it has no placement yet."""
    if not file.exists():
        return None
    plain, events, end, verified = float("nan"), [], None, False
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break  # cut off in the middle of a line
        if row["kind"] == "plain":
            plain = row["value"]
            continue
        entry = (row["wall"], row["cpu"], row["value"], row["bound"])
        if row["kind"] == "event":
            events.append(entry)
        else:
            end, verified = entry, row["verified"]
    if not events and end is None:
        return None
    return Story(run, plain, tuple(events), end, verified)


def gap_of(value: float, bound: float) -> float:
    """Return the relative gap."""
    return (value - bound) / max(abs(value), 1e-9)


def run_all(runs: Sequence[Run], workers: int, seconds: float, folder: Path) -> None:
    """Make all runs, the first first, and end those under way when the time is up."""
    context = multiprocessing.get_context("spawn")
    ends = time.perf_counter() + seconds
    waiting = list(runs)
    active: list[SpawnProcess] = []
    while (waiting or active) and time.perf_counter() < ends:
        while waiting and len(active) < workers:
            run = waiting.pop(0)
            process = context.Process(target=follow, args=(run, folder / f"{run.name}.jsonl"))
            process.start()
            active.append(process)
        time.sleep(0.05)
        active = [process for process in active if process.is_alive()]
    for late in active:
        late.terminate()
        late.join()


def table(stories: Sequence[Story]) -> Iterator[str]:
    """Yield a heading and a line a run."""
    times = "".join(f" {f'@{t:g}s':>8s}" for t in CHECKPOINTS_S)
    yield (
        f"{'run':18s} {'first_s':>7s} {'at 2 s':>9s} {'plain':>9s} {'value':>10s} {'bound':>10s} "
        f"{'gap':>7s} {'wall_s':>7s} {'cpu_s':>7s} {'over_s':>7s}{times}  gaps"
    )
    for story in stories:
        first = story.events[0][0] if story.events else story.last[0]
        early = story.at(FIRST_S)
        wall, cpu, value, bound = story.last
        over = "cut" if story.end is None else f"{story.overrun_s:.2f}"
        gaps = []
        for t in CHECKPOINTS_S:
            known = story.at(t) if t < wall else None
            gaps.append(f" {'-' if known is None else f'{gap_of(*known):.2%}':>8s}")
        yield (
            f"{story.run.name:18s} {first:7.2f} {'-' if early is None else f'{early[0]:.3f}':>9s} "
            f"{story.plain:9.3f} {value:10.4f} {bound:10.4f} {gap_of(value, bound):7.2%} "
            f"{wall:7.1f} {cpu:7.1f} {over:>7s}{''.join(gaps)}"
        )


def judge(stories: Sequence[Story]) -> list[Verdict]:
    """Hold the runs against what is promised, size by size and goal by goal."""
    verdicts = []
    for goal, gaps in GAPS.items():
        for hosts, promised in gaps.items():
            own = [
                s
                for s in stories
                if (s.run.goal, s.run.hosts) == (goal, hosts) and s.run.limit_s >= LIMITS_S[hosts]
            ]
            if not own:
                continue
            worst = max(gap_of(s.last[2], s.last[3]) for s in own)
            verdicts.append(
                Verdict(
                    f"{goal}-{hosts}: gap <= {promised:.1%} on every seed",
                    f"at most {worst:.2%} on {len(own)} runs",
                    worst <= promised and all(s.verified for s in own if s.end),
                )
            )
    early = [s for s in stories if (known := s.at(FIRST_S)) is None or known[0] > s.plain + 1e-6]
    verdicts.append(
        Verdict(
            f"a placement within {FIRST_S:g} s, no worse than single exchanges",
            f"not in {len(early)} of {len(stories)} runs",
            not early,
        )
    )
    ended = [s for s in stories if s.end is not None]
    share, extra = _GRACE
    late = [s for s in ended if s.overrun_s > share * s.run.limit_s + extra]
    verdicts.append(
        Verdict(
            f"limits kept within {share:.0%} and {extra:g} s",
            f"not in {len(late)} of {len(ended)} runs that ended",
            not late,
        )
    )
    verdicts.append(
        Verdict(
            "more time is never worse",
            "; ".join(worse := _worse_with_time(stories)) or "held in every pair of runs",
            not worse,
        )
    )
    return verdicts


def _worse_with_time(stories: Sequence[Story]) -> list[str]:
    """Return the pairs of runs that differ in their limit only, of which the longer is worse."""
    found = []
    by_task: dict[tuple[int, int, str], list[Story]] = {}
    for story in stories:
        if story.end is not None:
            by_task.setdefault((story.run.hosts, story.run.seed, story.run.goal), []).append(story)
    for own in by_task.values():
        own.sort(key=lambda story: story.run.limit_s)
        for short, long in pairwise(own):
            if long.last[2] > short.last[2] + 1e-6 or long.last[3] < short.last[3] - 1e-6:
                found.append(f"{long.run.name} after {short.run.name}")
    return found


def _seeds(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    return list(range(int(first), int(last))) if colon else [int(s) for s in text.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs and print the table; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anytime")
    parser.add_argument("--sizes", default="50,500,2000", help="numbers of hosts")
    parser.add_argument("--seeds", default="100:110", help="first:last, or a list")
    parser.add_argument("--goals", default="A,B", help="A (rebalance), B (defragment)")
    parser.add_argument("--limits", help="seconds for every size instead, for example 15,60")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, a thread each")
    parser.add_argument("--time", type=float, default=1e9, help="seconds for all runs")
    parser.add_argument("--stop-at-target", action="store_true", help="end runs at their gap")
    parser.add_argument("--cpu-time", action="store_true", help="count CPU seconds")
    parser.add_argument("--output", type=Path, help="file for the table")
    parser.add_argument("--events", type=Path, help="folder for the events of the runs")
    arguments = parser.parse_args(argv)
    for name in _THREADS:
        os.environ[name] = "1"
    runs = []
    for hosts in map(int, arguments.sizes.split(",")):
        limits = [LIMITS_S.get(hosts, 0.15 * hosts)]
        if arguments.limits:
            limits = [float(limit) for limit in arguments.limits.split(",")]
        for goal in arguments.goals.split(","):
            target = GAPS[goal].get(hosts, 0.0) if arguments.stop_at_target else -1.0
            for seed in _seeds(arguments.seeds):
                for limit in limits:
                    runs.append(Run(hosts, seed, goal, limit, target, arguments.cpu_time))
    runs.sort(key=lambda run: -run.limit_s)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.events or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        run_all(runs, arguments.workers, arguments.time, folder)
        read = [read_story(run, folder / f"{run.name}.jsonl") for run in runs]
    stories = sorted(
        (story for story in read if story is not None),
        key=lambda s: (s.run.goal, s.run.hosts, s.run.seed, s.run.limit_s),
    )
    lines = [describe_environment(), *table(stories), f"{len(stories)} of {len(runs)} runs"]
    print("\n".join(lines), flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return conclude(judge(stories))


if __name__ == "__main__":
    sys.exit(main())
