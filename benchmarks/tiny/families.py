"""All families of tiny problems, by name; ``NAME-scaled`` has weights and units far from 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.tiny.admission import ADMISSION
from benchmarks.tiny.assignment import ASSIGNMENT
from benchmarks.tiny.checkpointing import CHECKPOINTING
from benchmarks.tiny.family import Family
from benchmarks.tiny.gangs import GANG
from benchmarks.tiny.malleable import MALLEABLE
from benchmarks.tiny.moldable import MOLDABLE
from benchmarks.tiny.operation import OPERATION
from benchmarks.tiny.pipeline import PIPELINE
from benchmarks.tiny.placement import PLACEMENT
from benchmarks.tiny.project import PROJECT
from benchmarks.tiny.ranks import RANKS
from benchmarks.tiny.rounds import ROUND
from benchmarks.tiny.rules import RULES
from benchmarks.tiny.serving import INFERENCE, QUOTAS
from benchmarks.tiny.sharing import COLOCATION, SHARING
from benchmarks.tiny.sizing import SIZING
from benchmarks.tiny.spase import SPASE
from benchmarks.tiny.stages import STAGES

_PLAIN = (
    ROUND,
    MALLEABLE,
    MOLDABLE,
    SPASE,
    ADMISSION,
    PLACEMENT,
    RULES,
    GANG,
    SHARING,
    COLOCATION,
    SIZING,
    OPERATION,
    INFERENCE,
    QUOTAS,
    RANKS,
    ASSIGNMENT,
    CHECKPOINTING,
    PIPELINE,
    PROJECT,
    STAGES,
)
_WITHOUT_UNITS = (GANG,)
"""One gang is placed or not: nothing in its problem has a weight."""

FAMILIES: dict[str, Family] = {
    **{family.name: family for family in _PLAIN},
    **{
        f"{family.name}-scaled": replace(family, name=f"{family.name}-scaled", scaled=True)
        for family in _PLAIN
        if family not in _WITHOUT_UNITS
    },
}


def chosen(names: str) -> Sequence[Family]:
    """Return the families of a list such as ``round,malleable``, ``all``, ``plain``, ``scaled``.

    Raises
    ------
    ValueError
        If there is no such family.
    """
    groups = {
        "all": list(FAMILIES),
        "plain": [family.name for family in _PLAIN],
        "scaled": [name for name, family in FAMILIES.items() if family.scaled],
    }
    wanted = groups.get(names) or names.split(",")
    unknown = [name for name in wanted if name not in FAMILIES]
    if unknown:
        raise ValueError(
            f'unknown family "{unknown[0]}"; known: {", ".join((*groups, *FAMILIES))}.'
        )
    return [FAMILIES[name] for name in wanted]
