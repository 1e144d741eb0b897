"""Requests and speeds as published: figures known from elsewhere, and both fidelities on them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from needs import need_data

from alloc.instances.readers.requests import read_azure_llm, read_splitwise_option
from alloc.planning.inference import size_inference
from alloc.planning.inference_replay import replay_stream
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.report import InferenceReport
from alloc.problems.inference_sizing.request_stream import RequestStream
from alloc.problems.inference_sizing.requests import LatencyGoal
from alloc.problems.inference_sizing.served import ServedModel
from benchmarks.data import data_folder

TRACES = data_folder("traces")


@pytest.fixture(autouse=True)
def _traces_are_there() -> None:
    need_data("traces")


def requests(name: str) -> RequestStream:
    stream, report = read_azure_llm(
        TRACES / "azure-llm-2023" / f"AzureLLMInferenceTrace_{name}.csv.gz"
    )
    assert report.rows_skipped == 0
    return stream


@pytest.mark.parametrize(
    ("name", "number", "prompt", "answer"),
    [("code", 8819, 1469, 13), ("conv", 19366, 1020, 129)],
)
def test_requests_have_the_median_tokens_that_splitwise_reports(name, number, prompt, answer):
    """Splitwise, section III: medians of 1,500 and 1,020 prompt, 13 and 129 output tokens."""
    stream = requests(name)
    assert len(stream) == number
    assert np.median(stream.input_tokens) == prompt
    assert np.median(stream.output_tokens) == answer


def plan_at(stream: RequestStream, rate_per_s: float) -> tuple[InferenceProblem, InferenceReport]:
    """Plan Llama 2 70B on measured replicas for requests like these at a rate."""
    kind = stream.request_class("conv", ttft=LatencyGoal(2.0, 95), tpot=LatencyGoal(0.15, 95))
    options = tuple(
        read_splitwise_option(
            TRACES / "splitwise" / "perf_model.csv.gz",
            model="llama2-70b",
            hardware=hardware,
            tensor_parallel=degree,
        )[0]
        for hardware in ("h100-80gb", "a100-80gb")
        for degree in (4, 8)
    )
    model = ServedModel(
        "llama2-70b",
        131_500,
        (dataclasses.replace(kind, rate_per_s=(rate_per_s,)),),
        options,
        kv_mib_per_token=0.3125,
        arrival_scv=stream.arrival_scv,
    )
    pools = tuple(
        GpuPool(name, name, 8, 20, price, 81_559)
        for name, price in (("h100-80gb", 4.0), ("a100-80gb", 2.0))
    )
    problem = InferenceProblem((model,), pools, (Period("hour", 1.0),))
    return problem, size_inference(problem, what_if=False)


@pytest.mark.long
def test_a_plan_for_the_busiest_minutes_keeps_its_goals_over_the_recorded_hour():
    """A plan for the mean rate does not: the rate of the hour goes from 3.2 to 8.4 requests/s.

    So periods have to be short against the swings of the rate, as the assumptions say.
    """
    stream = requests("conv")
    busiest = max(len(stream.between(300 * i, 300 * i + 300)) / 300 for i in range(11))
    kept = []
    for rate in (stream.rate_per_s, busiest):
        problem, result = plan_at(stream, rate)
        assert result.result.certificate.status == "optimal"
        assert result.converged
        plan = result.result.require_solution()
        replayed = replay_stream(problem, plan, "llama2-70b", "hour", stream)
        assert sum(c.requests for c in replayed if c.measure == "ttft") == len(stream)
        kept.append(all(check.holds for check in replayed))
    assert kept == [False, True]
