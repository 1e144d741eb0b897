"""The timetable of a training step: when each device runs each pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from alloc.problems.pipeline.passes import Pass
from alloc.problems.pipeline.problem import PipelinePlan, PipelineProblem


@dataclass(frozen=True)
class TimedPass:
    """A pass with its times.

    Parameters
    ----------
    device
        Position of the device that runs it.
    step
        Which pass.
    start_s, end_s
        Seconds since the beginning of the training step.
    """

    device: int
    step: Pass
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timetable:
    """A training step from the first forward to the last backward pass: the flush included.

    Parameters
    ----------
    passes
        Every pass, device by device, in the order in which it runs them.
    num_devices
        Devices of the row.
    """

    passes: tuple[TimedPass, ...]
    num_devices: int

    @property
    def step_s(self) -> float:
        """Time of the step, seconds."""
        return max(timed.end_s for timed in self.passes)

    @property
    def bubble_fraction(self) -> float:
        """Share of the devices' time in which they wait, from 0 to 1."""
        busy = math.fsum(timed.end_s - timed.start_s for timed in self.passes)
        return 1.0 - busy / (self.num_devices * self.step_s)


def timetable(problem: PipelineProblem, plan: PipelinePlan) -> Timetable:
    """Run a step: each device runs its passes in order, each as soon as its input has arrived.

    A link sends one micro-batch after the other; its two directions do not disturb each other.

    Parameters
    ----------
    problem, plan
        The pipeline, and a plan that passes the checker.
    """
    return Timetable(tuple(_Step(problem, plan).run()), len(problem.devices))


class _Step:
    """The clocks of devices and links while a step runs."""

    def __init__(self, problem: PipelineProblem, plan: PipelinePlan) -> None:
        self.problem, self.last = problem, problem.num_stages - 1
        self.pass_s, self.transfer_s = plan.pass_s(problem), plan.transfers_s(problem)
        self.arrived = {Pass(0, batch, True): 0.0 for batch in range(problem.num_micro_batches)}
        devices = range(len(problem.devices))
        self.free = [0.0 for _ in devices]
        # By the stage's device and the direction.
        self.link_free = {(k, forward): 0.0 for k in devices for forward in (True, False)}

    def run(self) -> Iterator[TimedPass]:
        """Yield the passes device by device."""
        orders = [self.problem.passes(k) for k in range(len(self.free))]
        timed: list[list[TimedPass]] = [[] for _ in orders]
        waiting = True
        while waiting:
            waiting = False
            for k, order in enumerate(orders):
                while len(timed[k]) < len(order) and order[len(timed[k])] in self.arrived:
                    timed[k].append(self._timed(k, order[len(timed[k])]))
                    waiting = True
        for passes in timed:
            yield from passes

    def _timed(self, device: int, step: Pass) -> TimedPass:
        """Run the next pass of a device, and send what comes out of it."""
        start = max(self.free[device], self.arrived.pop(step))
        end = start + self.pass_s[step.stage][0 if step.is_forward else 1]
        self.free[device] = end
        after = self._next(step)
        if after is not None:
            self.arrived[after] = self._sent(step, after, end)
        return TimedPass(device, step, start, end)

    def _next(self, step: Pass) -> Pass | None:
        """Return the pass that waits for one: the next stage's, or at the end the way back."""
        if step.is_forward and step.stage == self.last:
            return step._replace(is_forward=False)
        stage = step.stage + (1 if step.is_forward else -1)
        return step._replace(stage=stage) if stage >= 0 else None

    def _sent(self, step: Pass, after: Pass, end_s: float) -> float:
        """Return when the next stage has what a pass made."""
        if after.stage == step.stage:
            return end_s
        # The link behind the stage of the two that comes first carries both directions.
        stage = min(step.stage, after.stage)
        link = (stage % len(self.free), step.is_forward)
        self.link_free[link] = max(self.link_free[link], end_s) + self.transfer_s[stage]
        return self.link_free[link]
