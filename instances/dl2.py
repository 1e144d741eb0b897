"""The facts of DL2's world: its servers, its eight job types and how fast they train.

Facts (not data) from the DL2 paper and its evaluation code: models, demands, epoch sizes, length
fractions, slot length. The measured speed table of DL2 is not part of alloc; the speeds here are
our own least-squares fits to it, of the form that Optimus uses for synchronous training.

References
----------
Peng, Bao, Chen, Wu, Meng, Lin. DL2: A Deep Learning-driven Scheduler for Deep Learning Clusters.
IEEE TPDS 32(8), 2021. doi:10.1109/TPDS.2021.3052895, arXiv:1909.06040 (the measurements).
Peng, Bao, Chen, Wu, Guo. Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
Clusters. EuroSys 2018. doi:10.1145/3190508.3190517 (the form of the fit).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from alloc.topology import HostType
from alloc.units import MILLI

SLOT_S = 1200.0
"""Length of a scheduling slot in DL2's simulations, seconds."""

TASK_CPU_MILLI = 2 * MILLI
"""CPU of any worker or parameter server: 2 of the 8 CPU slots of a server."""

SERVER = HostType(name="dl2-server", num_gpus=2, gpu_type="gtx-1080-ti", cpu_milli=8 * MILLI)
"""DL2's server: 8 CPU slots and 2 GPUs. So it holds four tasks, two of them GPU workers."""


@dataclass(frozen=True)
class SpeedFit:
    """Training speed with parameter servers, ``1 / (a/w + b + c*w/u + d*w + e*u)`` samples/s.

    ``a`` is compute shared by w workers, ``b`` what does not scale, ``c`` the load of w workers on
    u parameter servers, ``d`` and ``e`` the overhead of each worker and server. The fits keep what
    matters in the measurement: hungry for parameter servers, and slower with too many workers.

    Parameters
    ----------
    a, b, c, d, e
        Seconds per sample, 0 or more.
    """

    a: float
    b: float
    c: float
    d: float
    e: float

    def speed(self, num_ps: int, num_workers: int) -> float:
        """Return the speed with u parameter servers and w workers, samples per second.

        Parameters
        ----------
        num_ps, num_workers
            Parameter servers and workers, 1 or more of each.
        """
        u, w = num_ps, num_workers
        return 1 / (self.a / w + self.b + self.c * w / u + self.d * w + self.e * u)

    def with_compute(self, scale: float) -> SpeedFit:
        """Return the fit of a model with `scale` times the compute per sample, all else equal."""
        return replace(self, a=self.a * scale)


@dataclass(frozen=True)
class JobType:
    """One of the models that DL2 trains.

    Parameters
    ----------
    model
        Name of the model.
    uses_gpu
        Whether its workers take GPUs.
    epoch_size
        Samples in an epoch, in the units of the speed (DL2 divides one by the other).
    length_fraction
        Epochs to train, as a fraction of the evaluation's largest number of epochs.
    fit
        Its speed.
    """

    model: str
    uses_gpu: bool
    epoch_size: int
    length_fraction: float
    fit: SpeedFit


JOB_TYPES: dict[str, JobType] = {
    job_type.model: job_type
    for job_type in (
        JobType("resnet-50", True, 115, 0.30, SpeedFit(0.00394, 0.01306, 0.01317, 0.0002304, 0.0)),
        JobType("vgg-16", True, 115, 0.96, SpeedFit(0.01695, 0.01816, 0.02523, 0.004237, 0.0)),
        JobType(
            "resnext-110",
            True,
            390,
            0.05,
            SpeedFit(0.0005393, 0.00122, 0.0008627, 0.0001556, 9.112e-06),
        ),
        JobType(
            "inception-bn",
            True,
            120,
            0.54,
            SpeedFit(0.003105, 0.001204, 0.0013, 0.0001516, 2.197e-05),
        ),
        JobType(
            "seq2seq", True, 780, 0.95, SpeedFit(0.001038, 0.0008451, 0.0003787, 0.0002054, 0.0)
        ),
        JobType(
            "cnn-text-classification",
            False,
            193,
            0.46,
            SpeedFit(0.007464, 0.006891, 0.000475, 0.0003388, 0.0),
        ),
        JobType("dssm", False, 349, 0.33, SpeedFit(0.00155, 0.0004598, 0.0, 2.852e-05, 8.803e-07)),
        JobType("wlm", True, 165, 0.23, SpeedFit(0.0005874, 0.001496, 0.0009914, 0.0001924, 0.0)),
    )
}
"""The eight job types, by model."""
