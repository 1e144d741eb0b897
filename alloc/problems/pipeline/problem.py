"""Pipeline parallelism: which consecutive layers of a model does each device of a row run?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from alloc.errors import InstanceError, nearest
from alloc.problems import Problem
from alloc.problems.pipeline.passes import PASS_ORDERS, Pass, PassOrder, held_at_once, passes_of
from alloc.tabular import Tabular
from alloc.units import (
    GB_PER_MIB,
    require_count,
    require_memory,
    require_non_negative,
    require_positive,
)
from alloc.workload.parallelism import Parallelism

_BYTES_PER_MIB = 1024**2
"""Bytes in one MiB."""
_MAX_LAYERS = 5_000
"""Layers of which every two are compared in some 200 MB, and half a second a stage."""
_MAX_PASSES = 4_000_000
"""Passes of a step beyond which its timetable takes more than some ten seconds and a gigabyte."""


@dataclass(frozen=True)
class Layer:
    """A layer of a model, and what one micro-batch costs in it.

    Parameters
    ----------
    forward_s, backward_s
        Time of a forward and of a backward pass on a device of speed 1, seconds, 0 or more, not
        both 0.
    weights_mib
        Memory that the layer takes on its device all the time: weights, gradients, optimiser
        state; MiB, 0 or more.
    activations_mib
        Memory that a micro-batch takes from its forward to its backward pass, MiB, 0 or more.
    output_mib
        What a micro-batch sends to the next layer; as much comes back as gradients; MiB, 0 or more.
    """

    forward_s: float
    backward_s: float
    weights_mib: int = 0
    activations_mib: int = 0
    output_mib: float = 0.0


@dataclass(frozen=True)
class Device:
    """A GPU of the row, or a group of GPUs that run a stage together.

    Parameters
    ----------
    speed
        Speed relative to that of which the layers' times are, above 0.
    memory_mib
        Memory, MiB, or None where it is no limit.
    link_gb_per_s
        Bandwidth to the next device, each way, GB/s above 0, or None where sending takes no time.
        Of the last device: to the first, which only ``interleaved`` uses.
    """

    speed: float = 1.0
    memory_mib: int | None = None
    link_gb_per_s: float | None = None


@dataclass(frozen=True)
class PipelineProblem(Problem):
    """Layers in order, devices in a row, and a micro-batch schedule.

    Each device runs `chunks` stages of at least one layer, in the row's order again and again:
    stage s is on device s modulo the number of devices. Sending overlaps with computing.

    Parameters
    ----------
    name
        For people.
    layers
        The layers, as many as stages or more.
    devices
        The devices in the order of the row, at least one.
    num_micro_batches
        Micro-batches of a training step, 1 or more.
    order
        The micro-batch schedule: one of `alloc.problems.pipeline.passes.PASS_ORDERS`.
    chunks
        Stages of each device, 1 or more; 1 but for ``interleaved``.

    Raises
    ------
    InstanceError
        If a number makes no sense, there are fewer layers than stages, or a layer fits on no
        device.
    """

    name: str
    layers: tuple[Layer, ...]
    devices: tuple[Device, ...]
    num_micro_batches: int
    order: PassOrder = "1f1b"
    chunks: int = 1

    def __post_init__(self) -> None:
        if not self.layers:
            raise InstanceError(f"{self.name}: has no layers; give at least one.")
        if len(self.layers) > _MAX_LAYERS:
            raise InstanceError(
                f"{self.name}: {len(self.layers)} layers are more than {_MAX_LAYERS}; take blocks "
                "of them as one."
            )
        if not self.devices:
            raise InstanceError(f"{self.name}: has no devices; give at least one.")
        require_count(self.num_micro_batches, self.name, "num_micro_batches", least=1)
        require_count(self.chunks, self.name, "chunks", least=1)
        self._require_order()
        if self.num_stages > len(self.layers):
            raise InstanceError(
                f"{self.name}: {self.num_stages} stages are more than {len(self.layers)} layers, "
                "and each stage runs one at least; use fewer devices or chunks."
            )
        passes = 2 * self.num_stages * self.num_micro_batches
        if passes > _MAX_PASSES:
            raise InstanceError(
                f"{self.name}: a step has {passes} passes, and {_MAX_PASSES} is the most; give "
                "fewer micro-batches: the shares of time hardly change beyond a few hundred."
            )
        for k, layer in enumerate(self.layers):
            self._require_layer(layer, f"{self.name}: layer {k}")
        for k, device in enumerate(self.devices):
            where = f"{self.name}: device {k}"
            require_positive(device.speed, where, "speed")
            if device.memory_mib is not None:
                require_memory(device.memory_mib, where, "memory_mib")
            if device.link_gb_per_s is not None:
                require_positive(device.link_gb_per_s, where, "link_gb_per_s")
        # All of it one after the other on the slowest device and link takes longest.
        link = min((d.link_gb_per_s for d in self.devices if d.link_gb_per_s), default=math.inf)
        speed = min(device.speed for device in self.devices)
        longest_s = sum(
            (layer.forward_s + layer.backward_s) / speed + 2 * layer.output_mib * GB_PER_MIB / link
            for layer in self.layers
        )
        if not math.isfinite(self.num_micro_batches * longest_s):
            raise InstanceError(
                f"{self.name}: the time of a step is beyond all numbers; give times in seconds and "
                "links in GB/s."
            )
        self._require_room()

    def _require_order(self) -> None:
        if self.order not in PASS_ORDERS:
            raise InstanceError(
                f'{self.name}: unknown order "{self.order}"'
                f"{nearest(str(self.order), PASS_ORDERS, ';')} known: {', '.join(PASS_ORDERS)}."
            )
        if self.order != "interleaved":
            if self.chunks > 1:
                raise InstanceError(
                    f'{self.name}: chunks is {self.chunks}, and with order "{self.order}" every '
                    'device runs one stage; use the order "interleaved".'
                )
        elif self.num_micro_batches % len(self.devices):
            raise InstanceError(
                f"{self.name}: {self.num_micro_batches} micro-batches are no multiple of "
                f"{len(self.devices)} devices, in groups of which interleaved stages take them; "
                "change either."
            )

    @staticmethod
    def _require_layer(layer: Layer, where: str) -> None:
        for field in ("forward_s", "backward_s", "output_mib"):
            require_non_negative(getattr(layer, field), where, field)
        if not layer.forward_s + layer.backward_s > 0:
            raise InstanceError(
                f"{where}: forward_s and backward_s are both 0; merge it with its neighbour."
            )
        for field in ("weights_mib", "activations_mib"):
            require_memory(getattr(layer, field), where, field)

    def _require_room(self) -> None:
        """Refuse a layer that fits on no device even alone."""
        memory = [device.memory_mib for device in self.devices]
        if None in memory:
            return
        most = max(mib for mib in memory if mib is not None)
        for k, layer in enumerate(self.layers):
            alone = layer.weights_mib + layer.activations_mib
            if alone > most:
                raise InstanceError(
                    f"{self.name}: layer {k} takes {alone} MiB with one micro-batch, and the "
                    f"largest device has {most}; split the layer or the micro-batches."
                )

    @property
    def num_stages(self) -> int:
        """Stages of the pipeline."""
        return len(self.devices) * self.chunks

    def device_of(self, stage: int) -> Device:
        """Return the device that runs a stage."""
        return self.devices[stage % len(self.devices)]

    def passes(self, device: int) -> list[Pass]:
        """Return the passes of a device, by position, in the order in which it runs them."""
        return passes_of(self.order, device, len(self.devices), self.num_micro_batches, self.chunks)

    @cached_property
    def held(self) -> tuple[tuple[dict[int, int], ...], ...]:
        """For each device, the moments at which it holds most micro-batches, by stage."""
        return tuple(tuple(held_at_once(self.passes(k))) for k in range(len(self.devices)))

    def transfer_s(self, stage: int, last: int) -> float:
        """Return the time in which a micro-batch passes from a stage to the next, seconds.

        Parameters
        ----------
        stage
            The stage that sends.
        last
            Its last layer; nothing is sent after the last of all.
        """
        bandwidth = self.device_of(stage).link_gb_per_s
        if bandwidth is None or last == len(self.layers) - 1 or len(self.devices) == 1:
            return 0.0
        return self.layers[last].output_mib * GB_PER_MIB / bandwidth


@dataclass(frozen=True)
class PipelinePlan(Tabular):
    """Which layers each stage runs.

    Parameters
    ----------
    first_layers
        The first layer of each stage, by position from 0, in the order of the stages.

    Raises
    ------
    InstanceError
        If a position is not a whole number.
    """

    first_layers: tuple[int, ...]

    def __post_init__(self) -> None:
        for k in self.first_layers:
            if not isinstance(k, int) or isinstance(k, bool):
                raise InstanceError(
                    f"pipeline plan: first_layers has {k!r}; give positions of layers."
                )

    def layers(self, problem: PipelineProblem) -> list[tuple[Layer, ...]]:
        """Return the layers of each stage."""
        ends = (*self.first_layers, len(problem.layers))
        return [problem.layers[i:j] for i, j in pairwise(ends)]

    def pass_s(self, problem: PipelineProblem) -> list[tuple[float, float]]:
        """Return the time of a forward and of a backward pass of each stage, seconds."""
        return [
            (
                math.fsum(layer.forward_s for layer in layers) / problem.device_of(s).speed,
                math.fsum(layer.backward_s for layer in layers) / problem.device_of(s).speed,
            )
            for s, layers in enumerate(self.layers(problem))
        ]

    def transfers_s(self, problem: PipelineProblem) -> list[float]:
        """Return the time in which a micro-batch passes from each stage to the next, seconds."""
        lasts = [first - 1 for first in (*self.first_layers[1:], len(problem.layers))]
        return [problem.transfer_s(s, last) for s, last in enumerate(lasts)]

    def bottleneck_s(self, problem: PipelineProblem) -> float:
        """Return the longest time that a stage or a link takes for a micro-batch, seconds.

        That of a stage is its forward and its backward pass, that of a link one transfer, since
        both directions send at once.
        """
        stages = [math.fsum(times) for times in self.pass_s(problem)]
        return max(*stages, *self.transfers_s(problem))

    def peak_mib(self, problem: PipelineProblem) -> list[int]:
        """Return the most memory that each device uses in a step, MiB."""
        layers = self.layers(problem)
        weights = [sum(layer.weights_mib for layer in stage) for stage in layers]
        activations = [sum(layer.activations_mib for layer in stage) for stage in layers]
        return [
            sum(weights[k :: len(problem.devices)])
            + max(sum(n * activations[s] for s, n in moment.items()) for moment in moments)
            for k, moments in enumerate(problem.held)
        ]

    def parallelism(self, problem: PipelineProblem, tensor: int = 1, data: int = 1) -> Parallelism:
        """Return the parallel dimensions of the job, for `alloc.map_ranks`.

        Parameters
        ----------
        problem
            What the plan is of.
        tensor, data
            Degrees of tensor and data parallelism, 1 or more.
        """
        cuts = [problem.layers[first - 1].output_mib for first in self.first_layers[1:]]
        return Parallelism(
            tensor=tensor,
            pipeline=len(problem.devices),
            data=data,
            pipeline_bytes=max(cuts, default=0.0) * _BYTES_PER_MIB / tensor,
            micro_batches=problem.num_micro_batches,
        )
