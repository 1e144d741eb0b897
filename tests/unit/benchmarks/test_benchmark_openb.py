"""The openb benchmark on a trace of our own making: its arithmetic, and that it says no."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from alloc.errors import InstanceError
from benchmarks import openb

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{k},32000,65536,4,T4\n" for k in range(4)
)
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    + "".join(
        f"p{k},{cpu},1024,{min(gpu, 1)},{gpu},,LS,Running,{k},{k + 9},{k}\n"
        for k, (cpu, gpu) in enumerate([(4000, 1000), (2000, 470), (2000, 530), (6000, 0)] * 5)
    )
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of traces with a small openb, and point the benchmark to it."""
    openb_folder = tmp_path / "alibaba-gpu-v2023-openb"
    published = openb_folder / "fgd-published-results"
    published.mkdir(parents=True)
    rows = ["workload,sc_policy,tune,seed,total_gpus," + ",".join(map(str, range(131)))]
    for policy in openb.PUBLISHED.values():
        for seed in (42, 43):
            curve = ",".join(str(min(p, 95) + (seed - 42)) for p in range(131))
            rows.append(f"openb_pod_list_default,{policy},1.3,{seed},16,{curve}")
    files = {
        openb_folder / "openb_node_list_gpu_node.csv.gz": NODES,
        openb_folder / "openb_node_list_all_node.csv.gz": NODES + "c0,64000,65536,0,\n",
        openb_folder / "openb_pod_list_default.csv.gz": PODS,
        published / "analysis_allo_discrete.csv.gz": "\n".join(rows) + "\n",
    }
    for path, text in files.items():
        path.write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("ALLOC_TRACES", str(tmp_path))
    return tmp_path


def test_the_tables_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every policy has its line; a made-up publication is not reproduced, and that is said."""
    code = openb.main(["--seeds", "2", "--other-seeds", "1", "--plan-seconds", "1"])
    out = capsys.readouterr().out
    assert code == 1
    assert "20 pods on 4 hosts with 16 GPUs" in out
    for name in ("random-fit", "best-fit", "fgd", "kueue-best-fit", "exact-plan (mix known)"):
        assert f"\n{name}" in out
    assert "the complete node list, 5 hosts" in out
    assert "MISSED" in out
    assert "target: offline bound at 100 % proved" in out


def test_published_ratios_are_means_over_seeds(folder: Path) -> None:
    """Two seeds, 90 and 91 at 90 %: 90.5."""
    trace = openb.read_trace(folder)
    assert trace.published["fgd"][90] == pytest.approx(90.5)
    assert trace.all_hosts.num_hosts == 5
    assert sum(openb.mix_of(trace.pods).values()) == 20


def test_expected_jobs_are_the_trace_or_as_many_draws(folder: Path) -> None:
    """The trace itself asks for 10 of 16 GPUs; for 100 % of them, 32 pods are drawn."""
    trace = openb.read_trace(folder)
    assert len(openb.expected_jobs(trace, 1.0, None).jobs) == 20
    drawn = openb.expected_jobs(trace, 1.0, 7).jobs
    assert {job.id.split("-", 1)[1] for job in drawn} <= {pod.name for pod in trace.pods}
    assert len(drawn) == 32


def test_a_missing_trace_is_said(tmp_path: Path) -> None:
    """Without its data the benchmark must not look as if it had run."""
    with pytest.raises(InstanceError, match=r"the openb trace is not in .*; set ALLOC_TRACES"):
        openb.read_trace(tmp_path)
