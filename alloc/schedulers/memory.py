"""What a policy remembers from round to round: what depends on tables and hosts alone."""

from __future__ import annotations

from collections.abc import Sequence

from alloc.schedulers.ladder import Ladder, ladder_of
from alloc.schedulers.least_loaded import LeastLoaded
from alloc.schedulers.state import JobView
from alloc.topology import Topology
from alloc.workload import NO_RULES, Configuration

_Table = tuple[int, str, bool]


class Memory:
    """Ladders already built, the fastest rates of tables, and the hosts by what is free on them.

    Jobs of one kind share their table and so all that is remembered of it.
    """

    def __init__(self) -> None:
        self._of_job: dict[tuple[str, int | None], Ladder] = {}
        # Tables are kept beside what is known of them, so that their ids stay their own.
        self._of_table: dict[_Table, tuple[tuple[Configuration, ...], Ladder]] = {}
        self._fastest: dict[int, tuple[tuple[Configuration, ...], float]] = {}
        self._hosts: tuple[Topology, LeastLoaded] | None = None

    def clear(self) -> None:
        """Forget all."""
        self._of_job.clear()
        self._of_table.clear()
        self._fastest.clear()
        self._hosts = None

    def begin(self, num_jobs: int) -> None:
        """Begin a round of so many jobs: with errors in the rates seen, tables are new in each."""
        if len(self._fastest) > num_jobs:
            self._fastest.clear()

    def ladder(self, view: JobView, topology: Topology) -> Ladder:
        """Return the ladder of a job on the hosts of a topology, always the same one.

        Parameters
        ----------
        view
            What the scheduler sees of the job.
        topology
            The cluster, the same in all calls.
        """
        elasticity = view.elasticity
        bound = None if elasticity == "malleable" else view.bound_to
        if bound is None:
            # What a job's ladder depends on, unless it is bound to a configuration.
            table = (id(view.configurations), elasticity, view.placement.required is None)
            shared = self._of_table.get(table)
            if shared is not None:
                return shared[1]
        # With an error in the rates seen, tables are new at each look.
        key = (view.id, bound)
        ladder = self._of_job.get(key)
        if ladder is None:
            ladder = self._of_job[key] = ladder_of(view, topology)
            if bound is None:
                self._of_table[table] = (view.configurations, ladder)
        return ladder

    def ladders(self, views: Sequence[JobView], topology: Topology) -> list[Ladder]:
        """Return the ladders of jobs, each as `ladder` does.

        Parameters
        ----------
        views
            The jobs.
        topology
            The cluster, the same in all calls.
        """
        # Of malleable jobs without rules, by their tables alone.
        known: dict[int, Ladder] = {}
        found: list[Ladder] = []
        for view in views:
            if view.elasticity != "malleable" or view.placement is not NO_RULES:
                found.append(self.ladder(view, topology))
                continue
            table = id(view.configurations)
            ladder = known.get(table)
            if ladder is None:
                ladder = known[table] = self.ladder(view, topology)
            found.append(ladder)
        return found

    def fastest(self, table: tuple[Configuration, ...]) -> float:
        """Return the highest rate of a table, work units per second."""
        known = self._fastest.get(id(table))
        if known is None:
            fastest = max([configuration.rate for configuration in table])
            known = self._fastest[id(table)] = (table, fastest)
        return known[1]

    def hosts(self, topology: Topology) -> LeastLoaded:
        """Return the hosts of a topology in the order of their loads, as the last round left them.

        What is free on them is worked out anew; what demands make of hosts is not.
        """
        if self._hosts is None or self._hosts[0] is not topology:
            self._hosts = (topology, LeastLoaded(topology))
        return self._hosts[1]
