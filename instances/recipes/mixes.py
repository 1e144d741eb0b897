"""Published statistics that several recipes draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ITP_SOURCE = (
    "ITP: 69,351 jobs of ten clusters, 2021, released with Gu et al., ElasticFlow, ASPLOS 2023 "
    "(MIT)"
)
ITP_GPUS: Mapping[int, float] = {
    1: 83.2,
    2: 2.1,
    4: 3.4,
    8: 10.1,
    16: 0.55,
    32: 0.51,
    64: 0.10,
}
"""GPUs of a job to its share of the jobs, per cent, counted in the released table."""
ITP_RUN_S: Sequence[tuple[float, float]] = (
    (0.01, 672.0),
    (0.05, 983.0),
    (0.25, 3815.0),
    (0.50, 10537.0),
    (0.75, 16319.0),
    (0.90, 28787.0),
    (0.95, 57514.0),
    (0.99, 210110.0),
)
"""Quantiles of the duration, seconds, counted in the released table."""

LLM_SOURCE = (
    "waiting gangs: sizes are ours, from tests to pre-training; their mean, 14 GPUs, lies between "
    "those of Acme's clusters Seren, 5.7, and Kalos, 26.8 (cluster summary of AcmeTrace; Hu et "
    "al., NSDI 2024, CC-BY-4.0)"
)
LLM_GPUS: Mapping[int, float] = {
    1: 30.0,
    2: 10.0,
    4: 10.0,
    8: 20.0,
    16: 12.0,
    32: 10.0,
    64: 6.0,
    128: 2.0,
}
"""GPUs of a gang to its share of the gangs, per cent."""

OPENB_SOURCE = (
    "openb: 8,152 pods of Alibaba, 2023, released with Weng et al., FGD, USENIX ATC 2023 (default "
    "list; pods of one GPU or less)"
)
OPENB_GPU_MILLI: Mapping[int, int] = {
    1000: 3911,
    810: 1078,
    470: 750,
    320: 328,
    650: 253,
    230: 140,
    460: 128,
    590: 75,
    160: 74,
    550: 72,
    220: 62,
    370: 47,
    110: 24,
    480: 19,
}
"""Share of a GPU, milli-GPU, to the number of pods, counted in the released list; shares of fewer
than ten pods are left out."""
