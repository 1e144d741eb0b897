"""The policies of alloc by name; none is loaded to know its name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from alloc.schedulers.shelf import shipped_entries

SCHEDULERS: Mapping[str, str] = {
    "fifo": "alloc.schedulers.fifo:Fifo",
    "easy-backfill": "alloc.schedulers.backfilling:EasyBackfill",
    "conservative-backfill": "alloc.schedulers.reserving:ConservativeBackfill",
    "turn-around": "alloc.schedulers.reserving:TurnAround",
    "lpt": "alloc.schedulers.reserving:Lpt",
    "srtf": "alloc.schedulers.srtf:Srtf",
    "srtf-dl2": "alloc.schedulers.srtf:SrtfDl2",
    "las": "alloc.schedulers.las:Las",
    "drf": "alloc.schedulers.drf:Drf",
    "tetris": "alloc.schedulers.tetris:Tetris",
    "optimus": "alloc.schedulers.optimus:Optimus",
    "random-ps": "alloc.schedulers.random_ps:RandomPs",
    "set-rule": "alloc.schedulers.learned.job_set_rule:SetRule",
    "critical-path": "alloc.schedulers.graphs:CriticalPath",
    "heft": "alloc.schedulers.graphs:Heft",
    "shortest-job": "alloc.schedulers.graphs:ShortestJob",
    "troublesome-first": "alloc.schedulers.graphs:TroublesomeFirst",
    "weighted-fair": "alloc.schedulers.graphs:WeightedFair",
    "decima-tree": "alloc.schedulers.learned.stage_tree:DecimaTree",
    "edf": "alloc.schedulers.edf:Edf",
    "elasticflow": "alloc.schedulers.elasticflow:ElasticFlow",
    "exact-admission": "alloc.schedulers.exact_admission:ExactAdmission",
    "primal-dual": "alloc.schedulers.primal_dual:PrimalDual",
    "chronus": "alloc.schedulers.chronus:Chronus",
    "mlfs": "alloc.schedulers.mlfs:Mlfs",
    "similarity-packing": "alloc.schedulers.similarity_packing:SimilarityPacking",
    "exact-progress": "alloc.schedulers.exact_round:exact_progress",
    "exact-remaining-time": "alloc.schedulers.exact_round:exact_remaining_time",
    "exact-goodput": "alloc.schedulers.exact_round:exact_goodput",
    "first-fit": "alloc.schedulers.placement:FirstFit",
    "best-fit": "alloc.schedulers.placement:BestFit",
    "random-fit": "alloc.schedulers.placement:RandomFit",
    "fgd": "alloc.schedulers.placement:Fgd",
    "hived": "alloc.schedulers.placement:HivedCells",
    "kai": "alloc.schedulers.placement:KaiBinPack",
    "kueue-best-fit": "alloc.schedulers.placement:KueueBestFit",
    "kueue-balanced": "alloc.schedulers.placement:KueueBalanced",
    "repack": "alloc.schedulers.placement:Repacking",
    "rollout": "alloc.schedulers.rollout:Rollout",
    "rolling-horizon": "alloc.simulation.rolling_horizon:RollingHorizon",
    "saturn": "alloc.simulation.introspection:Saturn",
    # Learned, each a file in learned/policies.
    **shipped_entries(),
}
"""The policies of alloc: name to ``module:attribute`` of what makes one."""


def schedulers_with(feature: str) -> tuple[str, ...]:
    """Return the names of alloc's policies that honour a rule, see `Scheduler`."""
    able = []
    for name, where in SCHEDULERS.items():
        module, _, attribute = where.partition(":")
        features = getattr(getattr(import_module(module), attribute), "features", ())
        # Who knows all placement rules knows the required level too.
        if feature in features or (feature == "required levels" and "placement rules" in features):
            able.append(name)
    return tuple(able)
