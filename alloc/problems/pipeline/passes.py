"""Micro-batch schedules: in which order a device runs its forward and backward passes.

``gpipe`` (Y. Huang et al., "GPipe", NeurIPS 2019, figure 2c)
    All forward passes, then all backward passes, the last micro-batch first.
``1f1b`` (D. Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021,
PipeDream-Flush; S. Fan et al., "DAPPLE", PPoPP 2021)
    A device p - k - 1 places before the end runs as many forward passes first; then one forward and
    one backward pass in turn, so that it holds the activations of p - k micro-batches at most.
``interleaved`` (D. Narayanan et al., "Efficient large-scale language model training on GPU clusters
using Megatron-LM", SC 2021, section 2.2; doi:10.1145/3458817.3476209)
    Each device runs v stages, every p-th of them. Groups of p micro-batches go through one stage
    after the other, so that the pipeline fills v times as fast.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

PassOrder = Literal["gpipe", "1f1b", "interleaved"]
PASS_ORDERS: tuple[PassOrder, ...] = get_args(PassOrder)
"""The micro-batch schedules by name."""


class Pass(NamedTuple):
    """One micro-batch through one stage, forwards or backwards; both count from 0."""

    stage: int
    micro_batch: int
    is_forward: bool


def passes_of(
    order: PassOrder, device: int, num_devices: int, num_micro_batches: int, chunks: int
) -> list[Pass]:
    """Return the passes of a device in the order in which it runs them.

    Parameters
    ----------
    order
        The micro-batch schedule.
    device
        Position of the device, from 0.
    num_devices, num_micro_batches
        p and m, 1 or more; of ``interleaved``, p divides m.
    chunks
        Stages of each device, v; 1 but for ``interleaved``.
    """
    behind, total = num_devices - device - 1, num_micro_batches * chunks

    def stage_and_batch(k: int) -> tuple[int, int]:
        """Return what the k-th forward pass is of: p micro-batches through each chunk in turn."""
        group, within = divmod(k, num_devices * chunks)
        chunk, member = divmod(within, num_devices)
        return chunk * num_devices + device, group * num_devices + member

    if order == "interleaved":
        there = [stage_and_batch(k) for k in range(total)]
        last = (chunks - 1) * num_devices + 2 * device
        back = [(last - stage, batch) for stage, batch in there]
        first = min(total, 2 * behind + (chunks - 1) * num_devices)
    else:
        there = [(device, batch) for batch in range(total)]
        back = there[::-1] if order == "gpipe" else there
        first = total if order == "gpipe" else min(total, behind)
    forward = [Pass(stage, batch, True) for stage, batch in there]
    backward = [Pass(stage, batch, False) for stage, batch in back]
    pairs = zip(forward[first:], backward, strict=False)
    return [
        *forward[:first],
        *(step for pair in pairs for step in pair),
        *backward[total - first :],
    ]


def held_at_once(order: list[Pass]) -> list[dict[int, int]]:
    """Return the micro-batches whose activations a device holds, stage by stage, at its fullest.

    Each entry is a moment: micro-batches by stage. Moments at which another holds at least as much
    of every stage are left out.

    Parameters
    ----------
    order
        The passes of the device.
    """
    stages = sorted({step.stage for step in order})
    place = {stage: k for k, stage in enumerate(stages)}
    now, moments = [0] * len(stages), set()
    for step in order:
        now[place[step.stage]] += 1 if step.is_forward else -1
        if step.is_forward:
            moments.add(tuple(now))
    kept: list[tuple[int, ...]] = []
    for moment in sorted(moments, key=sum, reverse=True):
        if not any(all(a >= b for a, b in zip(k, moment, strict=True)) for k in kept):
            kept.append(moment)
    return [dict(zip(stages, moment, strict=True)) for moment in kept]
