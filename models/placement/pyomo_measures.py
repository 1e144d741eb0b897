"""The objectives of F4 in Pyomo: each with the variables and constraints it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from alloc.models.placement.bandwidth import steps_of
from alloc.models.placement.facts import Facts
from alloc.models.timed import timed
from alloc.objectives import WeightedSum
from alloc.objectives.fragmentation import gang_domains, mix_of
from alloc.objectives.locality import places
from alloc.units import GB_PER_MIB, MILLI, RESOURCES


class PyomoMeasures:
    """Writes objectives onto a model of `concrete_model`, each once."""

    def __init__(self, model: pyo.ConcreteModel, facts: Facts) -> None:
        self.model = model
        self.facts = facts
        self._known: dict[str, Any] = {}

    def expression(self, level: WeightedSum) -> Any:
        """Return the Pyomo expression of a level of a goal."""
        total = self.model.zero
        for weight, term in level.terms:
            if term.name not in self._known:
                self._known[term.name] = getattr(self, f"_{term.name}")()
            total += (weight if term.sense == level.sense else -weight) * self._known[term.name]
        return total

    def _gpus(self, i: int) -> float:
        return float(self.facts.demand[i, 0]) / MILLI

    def _free_gpus(self, h: int) -> Any:
        m, capacity = self.model, self.facts.instance.topology.capacity
        return float(capacity[h, 0]) / MILLI - pyo.quicksum(
            self._gpus(i) * m.y[i, h] for i in m.I if self._gpus(i)
        )

    def _gpus_placed(self) -> Any:
        m, facts = self.model, self.facts
        held = [facts.configuration(way).demand[0] / MILLI for way in facts.ways]
        return pyo.quicksum(held[v] * m.x[v] for v in m.V)

    def _weight_placed(self) -> Any:
        m, facts = self.model, self.facts
        return pyo.quicksum(facts.job(facts.ways[v].job_class).weight * m.x[v] for v in m.V)

    def _domains_spanned(self) -> Any:
        m, facts = self.model, self.facts
        counted = [(k, level) for k in m.K for level in facts.levels_spanned(k)]
        place = {level: places(facts.instance, level) for _, level in counted}
        keys = [(k, level, int(p)) for k, level in counted for p in np.unique(place[level])]
        m.span = pyo.Var(keys, domain=pyo.Binary)
        rows = {k: [i for v in facts.ways_by_class[k] for i in facts.ways[v].rows] for k in m.K}

        @m.Constraint([(i, *key) for key in keys for i in rows[key[0]]])
        def C9_span(m: pyo.ConcreteModel, i: int, k: int, level: str, p: int) -> Any:
            hosts = np.flatnonzero(place[level] == p).tolist()
            inside = pyo.quicksum(m.y[i, h] for h in hosts)
            return inside <= facts.rows[i].count * m.span[k, level, p]

        first = pyo.quicksum(m.x[v] for k, _ in counted for v in facts.ways_by_class[k])
        return pyo.quicksum(m.span.values()) - first

    def _used(self, name: str, rows: list[int]) -> Any:
        """Return o_h: whether tasks of the rows stand on each host."""
        m, facts = self.model, self.facts
        used = pyo.Var(m.H, domain=pyo.Binary)
        m.add_component(name, used)
        some = [(i, h) for i in rows for h in m.H if facts.upper[i, h]]

        def holds(m: pyo.ConcreteModel, i: int, h: int) -> Any:
            return m.y[i, h] <= int(facts.upper[i, h]) * used[h]

        m.add_component(f"C12_{name}", pyo.Constraint(some, rule=timed(holds)))
        return used

    def _hosts_used(self) -> Any:
        return pyo.quicksum(self._used("o", list(self.model.I)).values())

    def _gpu_hosts_used(self) -> Any:
        rows = [i for i in self.model.I if self._gpus(i)]
        return pyo.quicksum(self._used("o_gpu", rows).values())

    def _whole_hosts_free(self) -> Any:
        used = self._used("o_free", list(self.model.I))
        with_gpus = np.flatnonzero(self.facts.instance.topology.capacity[:, 0]).tolist()
        return pyo.quicksum(1 - used[h] for h in with_gpus)

    def _balance(self) -> Any:
        m, facts = self.model, self.facts
        capacity = facts.instance.topology.capacity
        resources = range(capacity.shape[1])
        keys = [(h, r) for r in resources for h in np.flatnonzero(capacity[:, r]).tolist()]
        m.b = pyo.Var(keys, bounds=(0, 2))

        def share(h: int, r: int) -> Any:
            size = float(capacity[h, r])
            return pyo.quicksum(
                float(facts.demand[i, r]) / size * m.y[i, h] for i in m.I if facts.demand[i, r]
            )

        means = {
            r: pyo.quicksum(share(h, r) for h, q in keys if q == r)
            / max(1, sum(q == r for _, q in keys))
            for r in resources
        }

        @m.Constraint(keys)
        def C13_above_mean(m: pyo.ConcreteModel, h: int, r: int) -> Any:
            return m.b[h, r] >= share(h, r) - means[r]

        return pyo.quicksum(m.b.values())

    def _moves(self) -> Any:
        return pyo.quicksum(self.model.m.values())

    def _moved_gb(self) -> Any:
        m, facts = self.model, self.facts
        total = 0
        for k, role, h in m.m:
            running = facts.data.running[facts.classes[k][0]]
            tasks = facts.job(k).configurations[running.configuration].tasks
            memory = next(group.memory_mib for group in tasks if group.role == role)
            total += memory * GB_PER_MIB * m.m[k, role, h]
        return total

    def _bottleneck_bandwidth(self) -> Any:
        m, facts = self.model, self.facts
        steps = steps_of(facts.instance.topology)
        several = {
            k: [v for v in facts.ways_by_class[k] if facts.gpus(facts.ways[v]) > 1] for k in m.K
        }
        m.KT = pyo.Set(
            initialize=[(k, t) for k in m.K if several[k] for t in range(len(steps))], dimen=2
        )
        m.e = pyo.Var(m.KT, domain=pyo.Binary)
        parts = [np.unique(step.part).tolist() for step in steps]
        keys = [(k, t, p) for k, t in m.KT for p in parts[t]]
        m.g = pyo.Var(keys, domain=pyo.Binary)
        with_gpu = {
            k: [i for v in facts.ways_by_class[k] for i in facts.ways[v].rows if self._gpus(i)]
            for k in m.K
        }

        @m.Constraint(m.KT)
        def C14_runs(m: pyo.ConcreteModel, k: int, t: int) -> Any:
            return m.e[k, t] <= pyo.quicksum(m.x[v] for v in several[k])

        @m.Constraint(m.KT)
        def C14_one_part(m: pyo.ConcreteModel, k: int, t: int) -> Any:
            return pyo.quicksum(m.g[k, t, p] for p in parts[t]) == m.e[k, t]

        @m.Constraint([(i, *key) for key in keys for i in with_gpu[key[0]]])
        def C14_part(m: pyo.ConcreteModel, i: int, k: int, t: int, p: int) -> Any:
            hosts = np.flatnonzero(steps[t].part == p).tolist()
            inside = pyo.quicksum(m.y[i, h] for h in hosts)
            return inside <= facts.rows[i].count * (1 - m.e[k, t] + m.g[k, t, p])

        narrow = [(k, t, h) for k, t in m.KT for h in np.flatnonzero(steps[t].too_narrow).tolist()]

        @m.Constraint(narrow)
        def C14_narrow_host(m: pyo.ConcreteModel, k: int, t: int, h: int) -> Any:
            most = max(facts.gpus(facts.ways[v]) for v in facts.ways_by_class[k])
            held = pyo.quicksum(self._gpus(i) * m.y[i, h] for i in with_gpu[k])
            return held <= most - (most - 1) * m.e[k, t]

        return pyo.quicksum(steps[t].rise * m.e[k, t] for k, t in m.KT)

    def _fragmentation(self) -> Any:
        m, facts = self.model, self.facts
        topology = facts.instance.topology
        capacity = topology.capacity
        shapes = [(s, p) for s, p in mix_of(facts.instance).items() if s.num_gpus]
        gpu_hosts = np.flatnonzero(capacity[:, 0]).tolist()
        keys = [
            (n, h)
            for n, (shape, _) in enumerate(shapes)
            for h in gpu_hosts
            if shape.gpu_type in (None, topology.gpu_types[h])
        ]
        m.a = pyo.Var(keys, domain=pyo.Binary)
        m.t = pyo.Var(keys, bounds=lambda _, n, h: (0, float(capacity[h, 0]) / MILLI))

        @m.Constraint(keys)
        def C15_usable(m: pyo.ConcreteModel, n: int, h: int) -> Any:
            return m.t[n, h] <= self._free_gpus(h)

        @m.Constraint(keys)
        def C15_able(m: pyo.ConcreteModel, n: int, h: int) -> Any:
            return m.t[n, h] <= float(capacity[h, 0]) / MILLI * m.a[n, h]

        @m.Constraint(keys, range(len(RESOURCES)))
        def C15_capacity(m: pyo.ConcreteModel, n: int, h: int, r: int) -> Any:
            shape = shapes[n][0]
            need = (shape.num_gpus * MILLI, shape.cpu_milli, shape.memory_mib)[r]
            if not need:
                return pyo.Constraint.Skip
            used = pyo.quicksum(
                int(facts.demand[i, r]) * m.y[i, h] for i in m.I if facts.demand[i, r]
            )
            return used + need * m.a[n, h] <= int(capacity[h, r])

        usable = pyo.quicksum(shapes[n][1] * m.t[n, h] for n, h in keys)
        return pyo.quicksum(self._free_gpus(h) for h in gpu_hosts) - usable

    def _largest_gang(self) -> Any:
        m, facts = self.model, self.facts
        place = gang_domains(facts.instance)
        number = facts.instance.topology.capacity[:, 0] / MILLI
        most = float(np.bincount(place, weights=number).max())
        every = np.unique(place).tolist()
        m.chosen = pyo.Var(every, domain=pyo.Binary)
        m.largest = pyo.Var(bounds=(0, most))
        m.C16_one = pyo.Constraint(expr=pyo.quicksum(m.chosen.values()) == 1)

        @m.Constraint(every)
        def C16_free(m: pyo.ConcreteModel, p: int) -> Any:
            free = pyo.quicksum(self._free_gpus(h) for h in np.flatnonzero(place == p).tolist())
            return m.largest <= free + most * (1 - m.chosen[p])

        return m.largest
