"""The readers of requests and of measured speeds, on files of our own."""

from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers.requests import read_azure_llm, read_splitwise_option
from alloc.problems.inference_sizing.requests import LatencyGoal

DATA = Path(__file__).parents[2] / "data" / "traces"


def test_requests_are_sorted_and_every_row_is_accounted_for():
    stream, report = read_azure_llm(DATA / "azure-llm.csv")
    assert stream.arrival_s.tolist() == pytest.approx([0.0, 0.5, 2.0])
    assert stream.input_tokens.tolist() == [100, 200, 300]
    assert stream.output_tokens.tolist() == [10, 20, 1]
    assert report.rows_skipped == 2  # a date that is none, a prompt of no token
    assert report.num_dropped == 1
    assert "sorted" in str(report)


def test_a_stream_describes_itself_as_a_class():
    stream, _ = read_azure_llm(DATA / "azure-llm.csv")
    assert stream.rate_per_s == pytest.approx(2 / 2.0)
    assert stream.arrival_scv == pytest.approx(0.25)  # gaps of 0.5 and 1.5 s: variance 0.25, mean 1
    described = stream.request_class("x", ttft=LatencyGoal(1, 99), periods=2)
    assert described.rate_per_s == (1.0, 1.0)
    assert described.inputs.mean == pytest.approx(200)
    assert len(stream.between(0.4, 2.0)) == 1
    with pytest.raises(InstanceError, match="needs two or more"):
        stream.between(0, 0.1).request_class("x")


def test_speeds_are_a_line_for_prompts_and_a_table_for_batches():
    """Median prompt times 34 ms at 100 tokens and 54 ms at 200: 14 ms and 5,000 tokens/s."""
    option, _ = read_splitwise_option(
        DATA / "splitwise-perf.csv", model="tiny", hardware="x1", tensor_parallel=2, gpu_type="g"
    )
    assert option.gpu_type == "g"
    assert option.prefill_tokens_per_s == pytest.approx(5000)
    assert option.prefill_overhead_s == pytest.approx(0.014)
    assert dict(option.decode_tokens_per_s) == pytest.approx({1: 1 / 0.022, 4: 160.0, 8: 400.0})


def test_what_was_not_measured_is_said_with_what_was():
    with pytest.raises(InstanceError, match="tiny on x1 TP2, tiny on x1 TP4, tiny on x2 TP2"):
        read_splitwise_option(
            DATA / "splitwise-perf.csv", model="huge", hardware="x1", tensor_parallel=2
        )
