"""Job tables on clusters: GPU types, made-up clusters, and what is refused."""

from __future__ import annotations

import pandas as pd
import pytest
from job_tables import JOBS, columns, written

from alloc.cli.clusters import Cluster
from alloc.cli.sources import on_cluster
from alloc.errors import InstanceError
from alloc.instances.readers import table_instance
from alloc.instances.readers.job_columns import KEYS
from alloc.topology import Host, HostType, Topology

A100 = HostType("8xa100", 8, "a100-sxm-80gb", 64_000, 512 * 1024)
H100 = HostType("8xh100", 8, "h100-sxm-80gb", 64_000, 512 * 1024)
MIXED = Topology("mixed", (A100, H100), (Host("a", "8xa100"), Host("b", "8xh100")))


def test_gpu_types_are_those_of_the_cluster() -> None:
    kinds = ["a100", "NVIDIA A100-SXM4-80GB", "H100|A100", "", "t4"]
    table = {
        "id": ["x", "y", "z", "any", "none"],
        "submit": [0] * 5,
        "duration": [60] * 5,
        "gpus": [8] * 5,
        "gpu_type": kinds,
    }
    instance, report = table_instance(table, topology=MIXED)
    found = {job.id: [c.gpu_type for c in job.configurations] for job in instance.jobs}
    assert found == {
        "x": ["a100-sxm-80gb"],
        "y": ["a100-sxm-80gb"],
        "z": ["a100-sxm-80gb", "h100-sxm-80gb"],
        "any": [None],
    }
    assert instance.job("z").elasticity == "moldable"
    assert [str(t) for t in report.dropped] == [
        "1 x asks for GPUs that the cluster has not: t4 (none (8 x 1 GPU of t4))"
    ]
    assert "one GPU type as on another" in instance.description["assumed"]


def test_one_gpu_type_in_the_table_is_that_of_the_made_up_cluster() -> None:
    table = {"submit": [0, 1], "duration": [9, 9], "gres": ["gpu:a100:1", "gpu:a100:2"]}
    instance, report = table_instance(table)
    assert set(instance.topology.gpu_types) == {"a100"}
    assert not report.altered


def test_cpu_and_memory_count_where_the_cluster_offers_them() -> None:
    table = {
        "submit": [0, 1],
        "duration": [9, 9],
        "tres": ["cpu=64,gres/gpu=4,mem=100G,node=2", "cpu=999,gres/gpu=1,mem=1G,node=1"],
    }
    instance, report = table_instance(table, topology=MIXED)
    [group] = instance.jobs[0].configurations[0].tasks
    assert (group.count, group.gpu_milli, group.cpu_milli, group.memory_mib) == (
        *(2, 2000, 32_000, 51_200),
    )
    assert "fits no hosts of the cluster" in report.dropped[0].reason
    made_up, _ = table_instance(table)
    assert [j.configurations[0].demand[1:] for j in made_up.jobs] == [(0, 0), (0, 0)]


def test_a_made_up_cluster_holds_the_largest_job_and_no_idle_hosts() -> None:
    table = {"submit": [0, 1, 2], "duration": [10**6] * 3, "gpus": [64, 1, 1]}
    assert table_instance(table)[0].topology.num_gpus == 72
    table["duration"] = [1] * 3
    assert table_instance(table)[0].topology.num_gpus == 64
    assert table_instance(table, load=0.5, max_jobs=3)[0].topology.num_gpus == 64


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"submit_time": None}, {}, "no column looks like the arrival; .* map arrival=COLUMN"),
        ({"duration": None}, {}, "no column looks like the duration"),
        ({"num_gpus": None}, {}, "no column looks like the gpus; .* gpus_per_task=COLUMN"),
        ({}, {"map": "idd=job_id"}, '"idd" is nothing that a column can be; did you mean "id"'),
        ({}, {"map": "id=jobid"}, 'has no column "jobid" for id; did you mean "job_id"'),
        ({}, {"map": "id=job_id,id=tenant"}, '"id" is named twice'),
        ({}, {"map": "id"}, '"id" has no column; write id=COLUMN'),
        ({}, {"timezone": "Europe/Berln"}, 'did you mean "Europe/Berlin"'),
        ({}, {"time_unit": "sec"}, 'time_unit is "sec".* Give one of ns, us, ms'),
        ({}, {"gpu_unit": "gpu"}, 'gpu_unit is "gpu"; did you mean "gpus"'),
        ({}, {"states": " , "}, "states is empty"),
        ({}, {"start": "yesterday"}, 'start is "yesterday": start is not a time'),
        ({}, {"start": "2024-05-31"}, "is a time without zone, not a number as others"),
        ({}, {"start": "99999"}, "no job is submitted from 99999 s"),
        ({}, {"num_hosts": 1, "load": 0.5}, "more than one of cluster_gpus, num_hosts and load"),
        ({}, {"num_hosts": 1, "topology": MIXED}, "a topology is given, and cluster_gpus"),
        ({"duration": ["x"] * 4}, {}, "holds no job that can be read: 4 x duration is not a dur"),
        ({"num_gpus": [0] * 4}, {}, "holds no job that can be read: 4 x asks for no GPU"),
        ({"num_gpus": [-1] * 4}, {}, "4 x num_gpus is below 0"),
        ({"num_gpus": [10**9] * 4}, {}, "above 1000000 GPUs; set gpu_unit"),
        ({"submit_time": [1_700_000_000_000] * 4}, {}, "after the year 5000 .* set time_unit=ms"),
        ({"duration": [1e12] * 4}, {}, "more than a century; set duration_unit"),
        ({"num_nodes": [0.5] * 4}, {}, "num_nodes is not a whole number of 1 or more"),
        ({"duration": [1]}, {}, "its columns differ in length"),
    ],
)
def test_mistakes_are_one_sentence_with_the_cure(change, options, message) -> None:
    table = {k: v for k, v in {**columns(), **change}.items() if v is not None}
    with pytest.raises(InstanceError, match=message) as raised:
        table_instance(table, **options)
    assert "\n" not in str(raised.value)


def test_mistakes_in_files_are_one_sentence_too(tmp_path) -> None:
    path = tmp_path / "jobs.csv"
    with pytest.raises(InstanceError, match="there is no such file"):
        table_instance(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(InstanceError, match="is empty"):
        table_instance(path)
    path.write_text("a,b,a\n1,2,3\n", encoding="utf-8")
    with pytest.raises(InstanceError, match='names the column "a" twice'):
        table_instance(path)
    written(path, columns())
    with pytest.raises(InstanceError, match=r'delimiter is "x"\. Give one of comma, tab'):
        table_instance(path, delimiter="x")
    with pytest.raises(InstanceError, match="give a path, a DataFrame"):
        table_instance(42)
    doubled = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InstanceError, match='names the column "a" twice'):
        table_instance(doubled)


def test_states_may_be_chosen() -> None:
    table = {**columns(), "state": ["COMPLETED", "FAILED", "completed", "CANCELLED by 7"]}
    instance, report = table_instance(table, states="completed, cancelled", num_hosts=4)
    assert [job.id for job in instance.jobs] == ["a", "c", "d"]
    assert [t.reason for t in report.dropped] == ["state FAILED is not wanted"]


def test_weights_and_deadlines_are_taken_over() -> None:
    table = {**columns(), "w": [1, 2, 3, 4], "deadline": [10_000 + j[2] for j in JOBS]}
    soft, _ = table_instance(table, map="weight=w", num_hosts=4)
    assert [job.weight for job in soft.jobs] == [1, 2, 3, 4]
    assert [job.due_date_s for job in soft.jobs] == table["deadline"]
    hard, _ = table_instance(table, deadlines="hard", num_hosts=4)
    assert [job.deadline_s for job in hard.jobs] == table["deadline"]


@pytest.mark.parametrize("name", ["gpu_hours", "gpus (min)", "num_gpus_s"])
def test_a_length_of_time_is_no_count_of_gpus(name) -> None:
    table = {"submit": [0], "duration": [9], name: [4]}
    with pytest.raises(InstanceError, match="no column looks like the gpus"):
        table_instance(table)


def test_a_column_called_as_its_key_is_that_key() -> None:
    """But for the memory, whose unit no name tells; and no total beside GPUs of each task."""
    values = {
        **{"id": "a", "arrival": 0, "start": 5, "end": 15, "duration": 10, "tasks": 2},
        **{"gpus_per_task": 4, "gpu_type": "a100", "cpus": 8, "tenant": "t", "model": "m"},
        **{"state": "COMPLETED", "deadline": 100, "weight": 3},
    }
    assert {*values} == {*KEYS} - {"gpus", "memory"}
    instance, account = table_instance([values])
    assert "Not used" not in str(account)
    [job] = instance.jobs
    [group] = job.configurations[0].tasks
    assert (group.count, group.gpu_milli, job.weight, job.due_date_s) == (2, 4000, 3.0, 100.0)


def test_what_slurm_asks_of_each_node_is_of_each_node() -> None:
    asked = {"submit": [0], "duration": [9], "ReqGRES": ["gpu:a100:8"]}
    instance, account = table_instance({**asked, "NNodes": [2]})
    assert instance.jobs[0].configurations[0].demand[0] == 16_000
    assert "No column says how many tasks" not in str(account)
    instance, account = table_instance(asked)
    assert instance.jobs[0].configurations[0].demand[0] == 8000
    assert "No column says how many tasks a job has: ReqGRES" in str(account)


def test_the_start_of_the_window_is_in_the_unit_of_the_arrivals() -> None:
    table = {"submit_min": [10, 20], "duration": [9, 9], "gpus": [1, 1]}
    instance, _ = table_instance(table, start="15")
    assert [job.arrival_s for job in instance.jobs] == [300.0]


def test_a_made_up_cluster_holds_tasks_that_share_no_host() -> None:
    table = {"submit": [0, 0], "duration": [9, 9], "gpus": [15, 2], "nodes": [3, 1]}
    instance, _ = table_instance(table, gpus_per_host=8)
    assert len(instance.jobs) == 2
    assert instance.topology.num_hosts == 3


def test_missing_values_of_pandas_are_empty_cells() -> None:
    frame = pd.DataFrame(
        {
            "submit": [0, 1, 2],
            "duration": pd.array([9, 9, None], dtype="Int64"),
            "gpus": pd.array([1, None, 1], dtype="Int64"),
        }
    )
    instance, account = table_instance(frame)
    assert [job.id for job in instance.jobs] == ["line-1"]
    assert {t.reason for t in account.dropped} == {
        "asks for no GPU",
        "has no run time: it has not run, or not ended",
    }


@pytest.mark.parametrize("key", ["gpus", "cpus", "memory"])
@pytest.mark.parametrize("amount", ["1e306", "9" * 15])
def test_amounts_beyond_any_cluster_spoil_their_row_alone(key, amount) -> None:
    """Sums of them would be no numbers."""
    table = {"submit": [0, 0], "duration": [9, 9], "gpus": ["1", "1"]}
    table[key] = ["1", amount]
    instance, account = table_instance(table, map={key: key})
    assert [job.id for job in instance.jobs] == ["line-1"]
    assert account.rows_skipped == 1


@pytest.mark.parametrize("table", [{"submit": 0, "duration": 9}, {"submit": "abc"}, 7])
def test_what_is_no_table_is_refused(table) -> None:
    with pytest.raises(InstanceError, match="give a path, a DataFrame, a mapping"):
        table_instance(table)


@pytest.mark.parametrize(
    ("each", "milli"),
    [("gpus_per_task", 4000), ("gpus_per_worker", 8000), ("GPUs per node", 2000), ("gres", 2000)],
)
def test_gpus_of_each_part_are_multiplied_by_the_number_of_those_parts(each, milli) -> None:
    table = {"submit": [0], "duration": [9], "nodes": [2], "ntasks": [4], "num_workers": [8]}
    instance, _ = table_instance({**table, each: [1]})
    assert instance.jobs[0].configurations[0].demand[0] == milli


def test_processes_beside_gpus_of_the_whole_job_are_not_its_parts() -> None:
    table = {"submit": [0], "duration": [9], "gpus": [8], "NTasks": [32]}
    instance, account = table_instance(table)
    assert instance.jobs[0].configurations[0].tasks[0].gpu_milli == 1000
    assert "Not used: NTasks." in str(account)


def test_a_cluster_that_is_made_up_is_called_so_until_another_takes_its_place() -> None:
    instance, _ = table_instance(columns())
    assert instance.description["cluster"].startswith(
        f"made up, {instance.topology.num_hosts} equal hosts"
    )
    given = Cluster(instance.topology, "conf/topology.conf")
    described = on_cluster(instance, given).description
    assert described["cluster"] == "topology file topology.conf"
    assert "made up" not in " ".join(described.values())
    own, _ = table_instance(columns(), topology=instance.topology)
    assert "made up" not in " ".join(own.description.values())
