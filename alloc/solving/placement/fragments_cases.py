"""Cases of what domains hold, which make the bound on fragmentation sharper.

A part of a gang fills what little is left all over a domain, which no whole gang can do. So the
hosts of a domain are weighed between *cases*, each with limits on how many gangs of a way stand
there, and in its case a gang has no more than the share of the hosts that the case weighs.
Wherever the linear program takes a part of a gang, the cases are parted further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from alloc.clock import check_time
from alloc.formulation import Array
from alloc.solving.placement.fragments_program import Program, Way
from alloc.solving.placement.terms import Counts

Case = Mapping[int, tuple[int, int]]
"""Of each choice in a domain, the least and the most gangs that stand there."""

_NOTHING = 1e-6
"""Weights and parts of gangs up to this are rounding of the linear program."""


class Cases:
    """The cases of the domains of a program.

    Parameters
    ----------
    program
        The program, without cases.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        levels = [own for own, _ in program.domains]
        # Domains of the same levels do not overlap.
        most = max(dict.fromkeys(levels), key=levels.count, default=())
        self.cases: dict[int, list[Case]] = {
            d: [{o: (0, c.most) for o, c in enumerate(program.choices) if c.domain == d}]
            for d, own in enumerate(levels)
            if own == most
        }
        self._patterns = program.inside[:, program.bay].sum(axis=1)

    @property
    def num_columns(self) -> int:
        """About the number of columns of the program in cases."""
        more = sum((len(own) - 1) * int(self._patterns[d]) for d, own in self.cases.items())
        return len(self.program.bay) + more

    def part(self, parted: Program, values: Array) -> bool:
        """Part the cases by the way of which a solution takes the largest parts of gangs.

        Parameters
        ----------
        parted
            What `applied` returns.
        values
            A solution of its linear program.

        Returns
        -------
        bool
            Whether there was one.
        """
        _, of_choice, weight = np.split(values, np.cumsum([len(parted.bay), len(parted.choices)]))
        parts: dict[tuple[Way, int], float] = {}
        for choice, number in zip(parted.choices, of_choice.tolist(), strict=True):
            share = float(weight[choice.case]) if choice.case >= 0 else 0.0
            if share > _NOTHING:
                down = int(number / share + _NOTHING)
                part = min(number - down * share, (down + 1) * share - number)
                if part > _NOTHING:
                    gpus = sum(size * n for size, n in choice.way.tasks)
                    key = (choice.way, down)
                    parts[key] = parts.get(key, 0.0) + part * gpus
        if not parts:
            return False
        way, down = max(parts, key=lambda key: parts[key])
        for d, own in self.cases.items():
            chosen = next((o for o in own[0] if self.program.choices[o].way == way), None)
            if chosen is not None:
                self.cases[d] = [part for case in own for part in _halves(case, chosen, down)]
        return True

    def applied(self) -> Program:
        """Return the program in cases.

        Raises
        ------
        OutOfTime
            If the time of `alloc.clock` is up.
        """
        program = self.program
        if not self.cases:
            return program
        kept = [d for d in range(len(program.domains)) if d not in self.cases]
        new_of = {d: n for n, d in enumerate(kept)}
        home = np.full(len(program.members), -1, dtype=np.int64)
        for d in self.cases:
            home[np.flatnonzero(program.inside[d])] = d
        bays: list[Counts] = [np.flatnonzero(home < 0)]
        choices = [
            replace(c, domain=new_of.get(c.domain, -1))
            for c in program.choices
            if c.domain not in self.cases
        ]
        domains, case_of = list(kept), list[int]()
        for number, (d, own) in enumerate(self.cases.items()):
            check_time()
            hosts = np.flatnonzero(home == d)
            for case in own:
                bays.append(hosts)
                for o, (least, most) in case.items():
                    choice = replace(program.choices[o], least=least, most=most)
                    choices.append(replace(choice, domain=len(domains), case=len(case_of)))
                domains.append(d)
                case_of.append(number)
        case_of_bay = np.repeat(np.arange(len(bays)) - 1, [len(own) for own in bays])
        bay = np.concatenate(bays)
        own_case = np.concatenate([np.full(len(kept), -1), np.arange(len(case_of))])[:, None]
        # A case has its own hosts; what stands in a domain inside is of no case.
        at = np.array(domains, dtype=np.int64)
        inside = program.inside[np.ix_(at, bay)]
        inside = inside * ((own_case < 0) | (own_case == case_of_bay))
        within = program.within[np.ix_(at, at)]
        within = within * ((own_case < 0) | np.eye(len(domains), dtype=bool))
        patterns = [np.flatnonzero(program.bay == b) for b in range(len(program.members))]
        pattern = np.concatenate([patterns[b] for b in bay.tolist()])
        return replace(
            program,
            lost=program.lost[pattern],
            counts=program.counts[pattern],
            bay=np.repeat(np.arange(len(bay)), [len(patterns[b]) for b in bay.tolist()]),
            members=tuple(program.members[b] for b in bay.tolist()),
            case=case_of_bay,
            case_of=np.array(case_of, dtype=np.int64),
            domains=tuple(program.domains[d] for d in domains),
            inside=inside,
            within=within,
            choices=tuple(choices),
        )


def _halves(case: Case, choice: int, down: int) -> Sequence[Case]:
    """Return a case with at most so many gangs of a choice, and with more; those that can be."""
    least, most = case[choice]
    if not least <= down < most:
        return [case]
    return [{**case, choice: (least, down)}, {**case, choice: (down + 1, most)}]
