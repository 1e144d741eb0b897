"""Capacity plans as the Pyomo model that one writes in an hour, solved by HiGHS, beside alloc.

The alternative states orders, hosts in service, jobs, rented hosts and what waived scenarios leave
unserved as a textbook has them, and hands all of it to HiGHS by Pyomo's own interface. It takes
headroom and bands of hours from alloc, and nobody checks its plan. Both are asked for the same gap
and count the CPU time from the problem to the answer, of this process alone; the ratio is the
alternative's time over that of alloc. The clock of HiGHS counts wall time: where it ends the
alternative first, the gaps are compared, and the alternative has had more time.

With ``--equal-time`` all limits count CPU time, and the alternative works in a process of its own,
which ends when it has had alloc's own time, or five and ten times that where it has no plan by
then: what both have after the same time is compared.

With ``--drawn 80`` so many small problems are drawn at run time, which nobody can have tuned for.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyomo.environ as pyo

import alloc
from alloc.instances import Entry, manifest
from alloc.instances.planning import generate_planning
from alloc.instances.stored_planning import PLANNING, load_stored_planning
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.headroom import headroom, reference_gpus
from alloc.problems.right_sizing.problem import PlanningProblem
from benchmarks.alternatives.plain_gangs import PlainAnswer
from benchmarks.alternatives.ratios import cpu_s
from benchmarks.cpu_limits import count_cpu_time
from benchmarks.cpu_time import cpu_s as cpu_s_of
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # a quarter of an hour

TARGETS = {
    "planning-tiny": (1e-4, 20.0),
    "planning-small": (1e-4, 20.0),
    "planning-medium": (1e-4, 20.0),
    "planning-large": (1e-3, 60.0),
}
"""Gap, and seconds in which alloc is to reach it."""
MORE = 3.0
"""Wall time of the alternative over the limit of alloc: on a machine with other work a process may
get a third of a core, and the alternative is not to lose for that."""
LONGER = (1.0, 5.0, 10.0)
"""Times of alloc's own time after which it is looked what the alternative has, until it has a plan.
"""
_LOOK_S = 0.05
"""Wall time between two looks at the CPU time of the alternative, seconds: little of any limit."""
_GIVEN_UP_S = 3600.0
"""Wall time of the alternative after which a machine has too much other work, seconds."""
SAME = 1e-5
"""Relative difference from which on a cost below the other's bound is a contradiction: HiGHS lets
each row miss by 1e-6."""


Program = Callable[[PlanningProblem, float, float], PlainAnswer]
"""Given a problem, seconds and a gap, returns an answer."""


def plain_model(problem: PlanningProblem) -> Any:
    """Return a plan as a Pyomo model: one size of host a pool, no margins, no carbon caps."""
    bands, size = bands_of(problem), reference_gpus(problem)
    hours, T, B = [float(h) for h in bands.hours], range(problem.num_quarters), range(bands.count)
    offers, classes = {o.name: o for o in problem.offers}, {c.name: c for c in problem.classes}
    sites, worlds = {s.name: s for s in problem.sites}, {w.name: w for w in problem.scenarios}
    pool = {  # GPU type, site, and whether on spot hosts, of each offer at each site
        (o.name, s): (o.gpu_type, s, o.terms == "spot")
        for o in problem.offers
        for s in sites
        if o.at(s)
    }
    hourly = [q for q in pool if offers[q[0]].is_hourly]
    firm = [q for q in pool if q not in set(hourly)]
    pools, firm_pools = sorted(set(pool.values())), sorted({pool[q] for q in firm})
    gpus, room = {}, {}  # busy and needed for a job an hour, by class, option and pool
    for c in problem.classes:
        for k, option in enumerate(c.options):
            for p in pools:
                if p[0] == option.gpu_type and c.at(p[1]) and (c.interruptible or not p[2]):
                    factor = headroom(problem, c, k, size, p[2])
                    if factor is not None:
                        gpus[c.name, k, p] = option.gpu_hours * (1 + p[2] * c.spot_overhead)
                        room[c.name, k, p] = factor * gpus[c.name, k, p]
    modes = {p: [mode for mode in room if mode[2] == p] for p in pools}
    moments = [(w, t, b) for w in worlds for t in T for b in range(len(hours))]
    part = [h / sum(hours) for h in hours]
    jobs = {
        (c.name, w, t, b): worlds[w].arrivals[c.name][t]
        * float(1 / part[b] if c.deferrable else bands.arrivals[i, b])
        for i, c in enumerate(problem.classes)
        for w, t, b in moments
    }  # of a deferrable class: if all came in this band
    peak = {c: max(jobs[c, *moment] for moment in moments) for c in classes}
    big = {p: 1 + problem.failures + sum(peak[i[0]] * room[i] for i in modes[p]) for p in pools}

    m, real = pyo.ConcreteModel(), pyo.NonNegativeReals
    m.ordered = pyo.Var(firm, T, within=pyo.NonNegativeIntegers)
    m.hosts = pyo.Var(firm, T, within=real)
    m.open = pyo.Var(firm_pools, T, within=pyo.Binary)
    m.usable = pyo.Var(firm_pools, T, within=real)
    m.run = pyo.Var(list(room), moments, within=real)
    m.rented = pyo.Var(hourly, moments, within=real)
    m.busy = pyo.Var(firm, moments, within=real)
    m.unserved = pyo.Var(list(classes), moments, within=real)
    m.waived = pyo.Var(list(worlds), within=pyo.Binary)
    m.rows = pyo.ConstraintList()
    add = m.rows.add

    for o, s in firm:
        lead, life = offers[o].lead_time_quarters, offers[o].service_quarters
        owned = [h for h in problem.owned if (h.offer, h.site) == (o, s)]
        for t in T:
            orders = [m.ordered[o, s, q] for q in T if q + lead <= t < q + lead + life]
            there = sum(h.count for h in owned if t < h.quarters_left)
            add(m.hosts[o, s, t] == there + sum(orders))
            m.ordered[o, s, t].setub(offers[o].most_hosts if t + lead < len(T) else 0)
            for w in worlds:
                for b in B:
                    add(m.busy[o, s, w, t, b] <= offers[o].gpus * m.hosts[o, s, t])
    for name, site in sites.items():
        here = [(q, offers[q[0]]) for q in firm if q[1] == name]
        for t in T:
            if site.rack_units is not None:
                add(sum(o.rack_units * m.hosts[q, t] for q, o in here) <= site.rack_units)
            if site.ports is not None:
                add(sum(o.ports * m.hosts[q, t] for q, o in here) <= site.ports)
            if site.power_kw is not None:
                add(site.pue * sum(o.busy_kw * m.hosts[q, t] for q, o in here) <= site.power_kw)
    for p in firm_pools:
        own = [q for q in firm if pool[q] == p]
        g = offers[own[0][0]].gpus
        for t in T:
            standing = g * sum(m.hosts[q, t] for q in own)
            add(m.usable[p, t] <= standing - g * problem.failures * m.open[p, t])
            add(m.usable[p, t] <= big[p] * m.open[p, t])
    for w, t, b in moments:
        for p in pools:
            rented = sum(
                offers[o].gpus * m.rented[o, s, w, t, b] for o, s in hourly if pool[o, s] == p
            )
            needed = sum(room[mode] * m.run[mode, w, t, b] for mode in modes[p])
            add(needed <= (m.usable[p, t] if p in firm_pools else 0) + rented)
            if p in firm_pools:
                on_hosts = sum(m.busy[o, s, w, t, b] for o, s in firm if pool[o, s] == p)
                add(sum(gpus[i] * m.run[i, w, t, b] for i in modes[p]) <= on_hosts + rented)
        for o, s in hourly:
            limit = offers[o].most_hosts
            if limit is not None:
                seen = worlds[w].spot_availability if offers[o].terms == "spot" else ()
                m.rented[o, s, w, t, b].setub(limit * (seen[t] if seen else 1.0))
        for c in problem.classes:
            allowed = jobs[c.name, w, t, b] if problem.epsilon and not c.critical else 0.0
            add(m.unserved[c.name, w, t, b] <= allowed * m.waived[w])
    of_class = {c.name: [mode for mode in room if mode[0] == c.name] for c in problem.classes}
    for c in problem.classes:
        for w in worlds:
            for t in T:
                served = [
                    m.unserved[c.name, w, t, b] + sum(m.run[i, w, t, b] for i in of_class[c.name])
                    for b in B
                ]
                if c.deferrable:
                    mean = sum(x * y for x, y in zip(part, served, strict=True))
                    add(mean >= worlds[w].arrivals[c.name][t])
                else:
                    for b in B:
                        add(served[b] >= jobs[c.name, w, t, b])
    add(sum(worlds[w].probability * m.waived[w] for w in worlds) <= problem.epsilon + 1e-9)

    price = bands.energy_price + problem.carbon_price_per_kg * bands.carbon
    kwh = {s: [sites[s].pue * float(x) for x in price[i]] for i, s in enumerate(sites)}
    spent = []
    for t in T:
        money = 0.0
        for o, s in firm:
            offer, idle = offers[o], sum(h * x for h, x in zip(hours, kwh[s], strict=True))
            each = offer.maintenance_per_quarter + offer.idle_kw * idle
            if offer.terms == "purchase":
                money += offer.price * m.ordered[o, s, t]
            else:
                each += offer.price
            money += each * m.hosts[o, s, t]
        for w in worlds:
            running = 0.0
            for b in B:
                running += hours[b] * sum(
                    offers[o].price * m.rented[o, s, w, t, b] for o, s in hourly
                )
                for o, s in firm:
                    kw = (offers[o].busy_kw - offers[o].idle_kw) / offers[o].gpus
                    running += hours[b] * kw * kwh[s][b] * m.busy[o, s, w, t, b]
                running += hours[b] * sum(
                    c.loss_per_job * m.unserved[c.name, w, t, b] for c in problem.classes
                )
            money += worlds[w].probability * running
        spent.append(money)
    for t, budget in enumerate(problem.quarter_budgets):
        add(spent[t] <= budget)
    if problem.budget is not None:
        add(sum(spent) <= problem.budget)
    worth = sum(
        offers[o].price * offers[o].residual_fraction * m.ordered[o, s, t]
        * min(max(t + offers[o].lead_time_quarters + offers[o].service_quarters - len(T), 0)
              / offers[o].service_quarters, 1)
        for o, s in firm if offers[o].terms == "purchase" for t in T
    )  # fmt: skip
    discounted = sum(problem.discount(t) * spent[t] for t in T)
    m.cost = pyo.Objective(expr=discounted - problem.discount(len(T)) * worth)
    return m


def by_pyomo(problem: PlanningProblem, seconds: float, gap: float) -> PlainAnswer:
    """Return what HiGHS makes of the plain model in some seconds of wall time, on one thread."""
    solver = pyo.SolverFactory("appsi_highs")
    solver.options = {"time_limit": seconds, "mip_rel_gap": gap, "threads": 1}
    found = solver.solve(plain_model(problem), load_solutions=False).problem
    cost, bound = found.upper_bound, found.lower_bound
    return PlainAnswer(
        math.inf if cost is None else float(cost), -math.inf if bound is None else float(bound)
    )


def by_alloc(problem: PlanningProblem, seconds: float, gap: float) -> PlainAnswer:
    """Return what alloc certifies in some seconds, in one process."""
    limits = alloc.Limits(seconds=seconds, gap=gap, workers=1)
    certificate = alloc.solve(problem, limits=limits).certificate
    cost = certificate.objective
    return PlainAnswer(math.inf if cost is None else cost, certificate.bound)


def drawn(seed: int) -> PlanningProblem:
    """Return a problem of one to eight scenarios and two to eight quarters, with 0 to 2 spares."""
    rng = np.random.default_rng(seed)
    return generate_planning(
        f"drawn-{seed}",
        num_host_types=int(rng.choice([2, 4, 4, 6])),
        num_sites=int(rng.integers(2, 4)),
        num_quarters=int(rng.choice([2, 3, 4, 4, 6, 8])),
        num_classes=int(rng.integers(2, 9)),
        num_scenarios=int(rng.choice([1, 2, 3, 5, 8])),
        gpus=float(rng.choice([30.0, 100.0, 300.0])),
        failures=int(rng.integers(0, 3)),
        epsilon=float(rng.choice([0.0, 0.0, 0.2])),
        bands=int(rng.choice([1, 2, 4])),
        goals=bool(rng.integers(2)),
        carbon_price_per_kg=float(rng.choice([0.0, 0.0, 0.0, 0.0, 0.1])),
        seed=seed,
    )


def compare_drawn(count: int, seed: int) -> Verdict:
    """Solve problems drawn from a seed on by both, print their rows, and judge all together."""
    ratios = []
    for n in range(seed, seed + count):
        problem = drawn(n)
        ratios.append(compare(problem.name, problem, *TARGETS["planning-small"])[0])
    behind = sum(ratio < 1 for ratio in ratios)
    return Verdict(
        f"of {count} drawn problems at most a tenth takes longer than with the plain model",
        f"{behind}; median ratio {statistics.median(ratios):.1f}, least {min(ratios):.2f}",
        behind <= count / 10,
    )


def compare(
    name: str, problem: PlanningProblem, gap: float, seconds: float
) -> tuple[float, Verdict]:
    """Solve a problem by both and print a row; return the ratio of times, and judge."""
    ours, own = cpu_s(by_alloc, problem, seconds, gap)
    theirs, other = cpu_s(by_pyomo, problem, MORE * seconds, gap)
    for a, b in ((own, other), (other, own)):
        if a.objective < b.bound * (1 - SAME):
            raise SystemExit(f"{name}: cost {a.objective:g} below the bound {b.bound:g}")
    at_least = "" if other.gap <= gap else "> "
    print(
        f"{at_least + format(theirs / ours, '.1f'):>7s} {ours:8.2f} {theirs:8.2f} {own.gap:9.4%} "
        f"{other.gap:9.4%}  {name}",
        flush=True,
    )
    ahead = own.gap <= gap and (ours <= theirs or other.gap > gap)
    both_short = min(own.gap, other.gap) > gap and own.gap <= other.gap
    return theirs / ours, Verdict(
        f"{name} within {gap:.2%} no later than the plain model",
        f"{own.gap:.4%} after {ours:.2f} s; {other.gap:.4%} after {theirs:.2f} s",
        ahead or both_short,
    )


def _plainly_elsewhere(name: str, gap: float, answers: Connection) -> None:
    """Solve a stored problem by the plain model; send the CPU time spent before, then bounds."""
    problem = load_stored_planning(name)
    answers.send(time.process_time())
    solver = pyo.SolverFactory("appsi_highs")
    solver.set_instance(plain_model(problem))
    highs = solver._solver_model  # noqa: SLF001 - nothing public has the callbacks of HiGHS
    highs.setOptionValue("mip_rel_gap", gap)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("output_flag", False)

    def tell(event: Any) -> None:
        answers.send((event.data_out.mip_primal_bound, event.data_out.mip_dual_bound))

    for changed in (highs.cbMipImprovingSolution, highs.cbMipInterrupt, highs.cbMipLogging):
        changed.subscribe(tell)
    highs.run()
    info = highs.getInfo()
    has_plan = info.primal_solution_status == 2  # HiGHS's number for a feasible one
    answers.send((info.objective_function_value if has_plan else math.inf, info.mip_dual_bound))


def plain_after(name: str, gap: float, moments: Sequence[float]) -> list[PlainAnswer]:
    """Return what the plain model has after some CPU times, none of them after its first plan.

    Parameters
    ----------
    name
        A stored problem.
    gap
        Relative gap at which it ends.
    moments
        CPU times from the problem on, seconds, ascending.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_plainly_elsewhere, args=(name, gap, there))
    process.start()
    there.close()
    assert process.pid is not None
    found, known, ends = [], PlainAnswer(math.inf, -math.inf), time.monotonic() + _GIVEN_UP_S
    try:
        before, used = here.recv(), 0.0
        for moment in moments:
            is_over = False
            while used < moment and not is_over:
                if time.monotonic() > ends:
                    raise SystemExit(f"{name}: {used:.0f} CPU s in an hour; use an idler machine")
                try:
                    while here.poll(_LOOK_S):
                        known = PlainAnswer(*here.recv())
                except EOFError:
                    is_over = True
                used = cpu_s_of(process.pid)[0] - before
            found.append(known)
            if is_over or math.isfinite(known.objective):
                break
    finally:
        process.kill()
        process.join()
    return found


def compare_at_equal_time(entry: Entry, times: Sequence[float]) -> Verdict:
    """Solve a stored problem by alloc, then by the plain model for as long; print rows, and judge.

    Gaps are to the best bound of both.

    Parameters
    ----------
    entry
        The problem.
    times
        Times of alloc's own CPU time, ascending, at which to look at the plain model.
    """
    gap, seconds = TARGETS[entry.id.partition("/")[0]]
    ours, own = cpu_s(by_alloc, load_stored_planning(entry.id), seconds, gap)
    theirs = plain_after(entry.id, gap, [n * ours for n in times])
    bound = max(own.bound, *(answer.bound for answer in theirs))
    for answer in (own, *theirs):
        if answer.objective < bound * (1 - SAME):
            raise SystemExit(f"{entry.id}: cost {answer.objective:g} below the bound {bound:g}")

    def told(answer: PlainAnswer) -> str:
        if not math.isfinite(answer.objective):
            return "no plan"
        return f"{PlainAnswer(answer.objective, bound).gap:.4%}"

    cells = [told(answer) for answer in theirs]
    print(
        f"{entry.id:19s} {ours:8.2f} {told(own):>9s} " + " ".join(f"{cell:>9s}" for cell in cells),
        flush=True,
    )
    return Verdict(
        f"{entry.id}: after the same CPU time no dearer than the plain model, to {gap:.2%}",
        f"{told(own)} after {ours:.1f} s; {', '.join(cells)} after as long"
        + ("" if len(cells) == 1 else ", and longer"),
        own.objective <= theirs[0].objective * (1 + gap),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios, CPU times and gaps; return 1 if alloc is behind anywhere."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.plain_planning")
    parser.add_argument(
        "--family", action="append", metavar="FAMILY|ID", help="repeat for more; default: all"
    )
    parser.add_argument(
        "--equal-time",
        action="store_true",
        help="give the alternative alloc's own CPU time, and more where it has no plan by then",
    )
    parser.add_argument(
        "--times",
        type=float,
        nargs="+",
        default=LONGER,
        metavar="N",
        help="of alloc's own time, ascending; default: 1 5 10",
    )
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="draw N small problems")
    parser.add_argument("--seed", type=int, help="of the first one drawn; default: by chance")
    arguments = parser.parse_args(argv)
    names = arguments.family
    entries = [
        entry
        for entry in manifest(PLANNING)
        if not names or entry.id in names or entry.id.partition("/")[0] in names
    ]
    if not entries:
        parser.error(f"no stored planning problem among {', '.join(names)}")
    for program in (by_alloc, by_pyomo):
        program(load_stored_planning("planning-tiny/01"), 1.0, 1e-4)  # loads the solvers
    if arguments.equal_time:
        count_cpu_time()
        after = " ".join(f"{f'plain {n:g}x':>9s}" for n in arguments.times)
        print(f"{'problem':19s} {'alloc s':>8s} {'gap':>9s} {after}")
        return conclude([compare_at_equal_time(entry, arguments.times) for entry in entries])
    print(f"{'ratio':>7s} {'alloc s':>8s} {'plain s':>8s} {'gap':>9s} {'plain gap':>9s}")
    if arguments.drawn:
        seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
        print(f"problems drawn from seed {seed} on")
        return conclude([compare_drawn(arguments.drawn, seed)])
    verdicts = []
    for entry in entries:
        gap, seconds = TARGETS[entry.id.partition("/")[0]]
        verdicts.append(compare(entry.id, load_stored_planning(entry.id), gap, seconds)[1])
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
