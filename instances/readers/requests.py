"""Requests to language models, and how fast replicas of one were measured to be.

References
----------
P. Patel et al., "Splitwise: Efficient Generative LLM Inference Using Phase Splitting", ISCA 2024.
Requests: AzureLLMInferenceTrace of github.com/Azure/AzurePublicDataset (CC-BY-4.0), an hour of two
services in November 2023. Speeds: ``data/perf_model.csv`` of github.com/Mutinifni/splitwise-sim
(MIT).
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from os import PathLike

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import Row, UnreadableRowError, read_table
from alloc.problems.inference_sizing.request_stream import RequestStream
from alloc.problems.inference_sizing.served import ReplicaOption

_REQUESTS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_SPEEDS = (
    "model",
    "hardware",
    "prompt_size",
    "batch_size",
    "token_size",
    "prompt_time",
    "token_time",
    "tensor_parallel",
)
_MAX_TOKENS = 10_000_000
"""Far beyond the context of any model; a larger number is no count of tokens."""
_MAX_MS = 1e7
"""Nearly three hours, milliseconds, for a prompt or a token: a longer time is a wrong unit."""
_SECOND_ENDS = 19  # of 2023-11-16 18:17:03.9799600


def read_azure_llm(path: str | PathLike[str]) -> tuple[RequestStream, ReadReport]:
    """Read the requests of a service, their first at 0 s.

    Parameters
    ----------
    path
        Columns ``TIMESTAMP`` (such as ``2023-11-16 18:17:03.9799600``, no zone),
        ``ContextTokens``, ``GeneratedTokens``. Plain or gzip.

    Returns
    -------
    RequestStream, ReadReport
        Requests in order of arrival, all of one class, and what was read. Requests without a
        generated token are left out.

    Raises
    ------
    InstanceError
        If the file cannot be read, has another header, or has no request.
    """
    log = ReportLog()

    def parse(row: Row) -> tuple[float, int, int] | None:
        arrival = _seconds(row)
        prompt = row.integer("ContextTokens", least=1, most=_MAX_TOKENS)
        answer = row.integer("GeneratedTokens", most=_MAX_TOKENS)
        if answer == 0:
            log.drop("no token generated", f"line {row.line}")
            return None
        return arrival, prompt, answer

    rows = [row for row in read_table(path, _REQUESTS, parse, log) if row is not None]
    if not rows:
        raise InstanceError(f"{path}: has no request that could be read; give another file.")
    if any(a[0] > b[0] for a, b in pairwise(rows)):
        log.alter("out of order of time, sorted", f"{len(rows)} requests")
        rows.sort()
    arrival, prompt, answer = (np.array(column) for column in zip(*rows, strict=True))
    stream = RequestStream(
        (arrival - arrival[0]).astype(float),
        prompt.astype(np.int64),
        answer.astype(np.int64),
        np.zeros(len(rows), dtype=np.int64),
    )
    return stream, log.report()


def read_splitwise_option(
    path: str | PathLike[str],
    *,
    model: str,
    hardware: str,
    tensor_parallel: int,
    gpu_type: str | None = None,
) -> tuple[ReplicaOption, ReadReport]:
    """Read how fast a replica of a model was measured to be.

    The speed of prompts and what each takes besides are a least-squares line through the median
    prompt times of single prompts; the decoding speed at each batch size is the batch over the
    median time of a token, at the prompt size that was measured with most batch sizes.

    Parameters
    ----------
    path
        Columns ``model``, ``hardware``, ``prompt_size``, ``batch_size``, ``token_size``,
        ``prompt_time`` (ms), ``token_time`` (ms), ``tensor_parallel``. Plain or gzip.
    model, hardware, tensor_parallel
        Which measurements, as the file names them.
    gpu_type
        GPU type of the option; by default the hardware's name.

    Returns
    -------
    ReplicaOption, ReadReport
        The option and what was read.

    Raises
    ------
    InstanceError
        If the file cannot be read, has another header, or too few such measurements.
    """
    log = ReportLog()
    seen: set[str] = set()

    def parse(row: Row) -> tuple[int, int, float, float] | None:
        degree = row.integer("tensor_parallel", least=1)
        seen.add(f"{row.text('model')} on {row.text('hardware')} TP{degree}")
        wanted = (model, hardware, tensor_parallel)
        if (row.text("model"), row.text("hardware"), degree) != wanted:
            return None
        return (
            row.integer("prompt_size", least=1, most=_MAX_TOKENS),
            row.integer("batch_size", least=1),
            row.positive("prompt_time", most=_MAX_MS) / 1000,
            row.positive("token_time", most=_MAX_MS) / 1000,
        )

    rows = [row for row in read_table(path, _SPEEDS, parse, log) if row is not None]
    alone: dict[int, list[float]] = {}
    steps: dict[int, dict[int, list[float]]] = {}
    for prompt, batch, prompt_s, step_s in rows:
        steps.setdefault(prompt, {}).setdefault(batch, []).append(step_s)
        if batch == 1:
            alone.setdefault(prompt, []).append(prompt_s)
    if len(alone) < 2:
        raise InstanceError(
            f"{path}: has {len(alone)} sizes of single prompts of {model} on {hardware} "
            f"TP{tensor_parallel}, and a line needs two; it has "
            f"{', '.join(sorted(seen)) or 'none'}."
        )
    sizes = np.array(sorted(alone), dtype=float)
    times = np.array([float(np.median(alone[int(size)])) for size in sizes])
    slope, overhead = np.polyfit(sizes, times, 1)
    if slope <= 0:
        raise InstanceError(
            f"{path}: prompts of {model} on {hardware} TP{tensor_parallel} take no longer when "
            "they are longer; leave out measurements that went wrong."
        )
    batches = max(steps.values(), key=len)
    decode = tuple((b, b / float(np.median(batches[b]))) for b in sorted(batches))
    option = ReplicaOption(
        gpu_type or hardware,
        tensor_parallel,
        prefill_tokens_per_s=1 / float(slope),
        decode_tokens_per_s=decode,
        prefill_overhead_s=max(float(overhead), 0.0),
    )
    return option, log.report()


def _seconds(row: Row) -> float:
    text = row.text("TIMESTAMP")
    whole, rest = text[:_SECOND_ENDS], text[_SECOND_ENDS:]
    try:
        seconds = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
        fraction = float(f"0{rest}") if rest.startswith(".") and rest[1:].isdigit() else 0.0
    except ValueError:
        raise UnreadableRowError("TIMESTAMP is not a date and time") from None
    if rest and not (rest.startswith(".") and rest[1:].isdigit()):
        raise UnreadableRowError("TIMESTAMP is not a date and time")
    return seconds + fraction
