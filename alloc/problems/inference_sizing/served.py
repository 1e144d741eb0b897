"""Served models: their requests, and the ways to run a replica of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from alloc.errors import InstanceError, nearest
from alloc.problems.inference_sizing.requests import RequestClass
from alloc.units import (
    require_count,
    require_memory,
    require_non_negative,
    require_positive,
)

Unit = Literal["replica", "host"]
OptionKey = tuple[str, int, int]
"""GPU type, tensor-parallel and pipeline-parallel degree: names an option of a model."""

_MAX_BATCH = 4096
"""Requests in a batch: no table of a server goes as far, and a larger number is one of tokens."""
_MAX_FAILURES = 4
"""Failures at once: losses are listed one by one, and each failure more multiplies their number."""


@dataclass(frozen=True)
class ReplicaOption:
    """One way to run a replica of a model.

    Parameters
    ----------
    gpu_type
        GPU type.
    tensor_parallel, pipeline_parallel
        Degrees of parallelism; a replica takes their product in GPUs, all on one host.
    prefill_tokens_per_s
        Prompt tokens that the replica processes per second, one prompt at a time.
    decode_tokens_per_s
        Pairs of batch size and output tokens per second of the whole batch, as measured, in order
        of batch size. Nothing is assumed about the shape; a batch between two sizes takes the time
        of the larger one.
    prefill_overhead_s
        Seconds that every prompt takes besides.
    max_batch
        Largest batch to run, or None for the largest measured.
    """

    gpu_type: str
    tensor_parallel: int
    prefill_tokens_per_s: float
    decode_tokens_per_s: tuple[tuple[int, float], ...]
    pipeline_parallel: int = 1
    prefill_overhead_s: float = 0.0
    max_batch: int | None = None

    def __post_init__(self) -> None:
        where = f'replica option "{self.label}"'
        require_count(self.tensor_parallel, where, "tensor_parallel", 1)
        require_count(self.pipeline_parallel, where, "pipeline_parallel", 1)
        require_positive(self.prefill_tokens_per_s, where, "prefill_tokens_per_s")
        require_non_negative(self.prefill_overhead_s, where, "prefill_overhead_s")
        if not self.decode_tokens_per_s:
            raise InstanceError(
                f"{where}: decode_tokens_per_s is empty; give the speed at one batch size or more."
            )
        before = 0
        for batch, speed in self.decode_tokens_per_s:
            require_count(batch, where, "decode_tokens_per_s: batch", 1)
            require_positive(speed, where, f"decode_tokens_per_s at batch {batch}")
            if batch <= before:
                raise InstanceError(
                    f"{where}: decode_tokens_per_s has batch {batch} after {before}; list every "
                    "batch size once, in order."
                )
            if batch > _MAX_BATCH:
                raise InstanceError(
                    f"{where}: decode_tokens_per_s has batch {batch}; batches are counted in "
                    f"requests, at most {_MAX_BATCH}."
                )
            before = batch
        if self.max_batch is not None:
            smallest = self.decode_tokens_per_s[0][0]
            require_count(self.max_batch, where, "max_batch", 1)
            if self.max_batch < smallest:
                raise InstanceError(
                    f"{where}: max_batch is {self.max_batch}, below the smallest batch measured, "
                    f"{smallest}; measure a smaller batch or raise max_batch."
                )

    @property
    def key(self) -> OptionKey:
        """What tells the options of a model apart."""
        return (self.gpu_type, self.tensor_parallel, self.pipeline_parallel)

    @property
    def gpus(self) -> int:
        """GPUs of a replica."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def label(self) -> str:
        """The option in words: ``h100 TP4`` or ``h100 TP4 PP2``."""
        return option_label(self.key)

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes to choose a cap from: those measured, up to `max_batch`."""
        most = self.max_batch if self.max_batch is not None else _MAX_BATCH
        return tuple(batch for batch, _ in self.decode_tokens_per_s if batch <= most)

    def step_s(self, batch: int) -> float:
        """Return the time of one decoding step of a batch, seconds."""
        for size, speed in self.decode_tokens_per_s:
            if size >= batch:
                return size / speed
        raise InstanceError(
            f'replica option "{self.label}": batch {batch} is larger than any measured; give its '
            "speed."
        )

    def slowest_step_s(self, cap: int) -> float:
        """Return the longest decoding step of any batch up to a cap, seconds."""
        sizes = (size for size, _ in self.decode_tokens_per_s if size <= cap)
        return max(self.step_s(size) for size in sizes)


@dataclass(frozen=True)
class ServedModel:
    """A model to serve.

    Parameters
    ----------
    name
        Unique name.
    memory_mib
        Weights of a replica, over all its GPUs, MiB.
    classes
        The requests it gets, one class or more.
    options
        The ways to run a replica, one or more.
    kv_mib_per_token
        Memory per token of a request in the batch (the KV cache), MiB.
    failures
        Replicas or hosts that may fail at once while every goal is still met, 0 to 4.
    failure_unit
        What fails: ``"replica"``, or ``"host"`` with all replicas that could stand on one.
    arrival_scv
        Squared coefficient of variation of the times between requests; 1: Poisson.
    """

    name: str
    memory_mib: int
    classes: tuple[RequestClass, ...]
    options: tuple[ReplicaOption, ...]
    kv_mib_per_token: float = 0.0
    failures: int = 0
    failure_unit: Unit = "replica"
    arrival_scv: float = 1.0

    def __post_init__(self) -> None:
        where = f'model "{self.name}"'
        if not self.name:
            raise InstanceError("a served model has no name; name it.")
        require_memory(self.memory_mib, where, "memory_mib")
        require_non_negative(self.kv_mib_per_token, where, "kv_mib_per_token")
        require_positive(self.arrival_scv, where, "arrival_scv")
        require_count(self.failures, where, "failures")
        if self.failures > _MAX_FAILURES:
            raise InstanceError(
                f"{where}: failures is {self.failures}; at most {_MAX_FAILURES} at once are "
                "planned for."
            )
        if not self.classes or not self.options:
            lacking = "classes" if not self.classes else "options"
            raise InstanceError(f"{where}: {lacking} is empty; give at least one.")
        require_unique((c.name for c in self.classes), where, "request class")
        require_unique((o.label for o in self.options), where, "replica option")
        lengths = {len(c.rate_per_s) for c in self.classes}
        if len(lengths) > 1:
            raise InstanceError(
                f"{where}: its classes have {' and '.join(map(str, sorted(lengths)))} rates; give "
                "one per period in each."
            )

    def rate_per_s(self, period: int) -> float:
        """Return the requests per second of all classes in a period."""
        return sum(c.rate_per_s[period] for c in self.classes)

    def mix(self, period: int) -> tuple[float, ...]:
        """Return the share of each class in a period; rounded, so that equal mixes are equal."""
        total = self.rate_per_s(period)
        if total <= 0:
            return tuple(0.0 for _ in self.classes)
        return tuple(round(c.rate_per_s[period] / total, 12) for c in self.classes)

    def option(self, key: OptionKey) -> ReplicaOption:
        """Return the option of a key.

        Raises
        ------
        InstanceError
            If the model has none.
        """
        for option in self.options:
            if option.key == key:
                return option
        label = option_label(key)
        known = [option.label for option in self.options]
        cure = nearest(label, known, "; it has: " + ", ".join(known) + ".")
        raise InstanceError(f'model "{self.name}": has no option "{label}"{cure}')


def option_label(key: OptionKey) -> str:
    """Return an option in words: ``h100 TP4`` or ``h100 TP4 PP2``."""
    gpu_type, tensor, pipeline = key
    return f"{gpu_type} TP{tensor}" + (f" PP{pipeline}" if pipeline > 1 else "")


def require_unique(names: Iterable[str], where: str, noun: str) -> None:
    """Refuse a name that appears twice.

    Parameters
    ----------
    names
        Names that must differ.
    where, noun
        Who has the names, and what they are names of, for the message.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InstanceError(f'{where}: has {noun} "{twice[0]}" twice; rename or drop one.')


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


N = TypeVar("N", bound=Named)


def named(items: Sequence[N], name: str, noun: str) -> N:
    """Return the item of a name.

    Parameters
    ----------
    items
        Things with a name each, no two with the same.
    name
        The one that is asked for.
    noun
        What they are, for the message.

    Raises
    ------
    InstanceError
        If there is none.
    """
    for item in items:
        if item.name == name:
            return item
    known = [item.name for item in items]
    cure = nearest(name, known, "; there are: " + ", ".join(known) + ".")
    raise InstanceError(f'there is no {noun} "{name}"{cure}')
