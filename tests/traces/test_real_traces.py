"""The readers against the published traces themselves, held to figures known from elsewhere.

The data is not part of the repository. It is looked for in the folder that the environment variable
``ALLOC_TRACES`` names, or in ``../shared/data/traces`` beside the repository.
"""

from __future__ import annotations

import csv
import gzip

import pytest
from needs import need_data

from alloc.instances import readers
from alloc.instances.readers import BatchTable, demand_of
from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI
from benchmarks.data import data_folder

TRACES = data_folder("traces")
ITP = TRACES / "microsoft-itp-2021"
PHILLY = TRACES / "microsoft-philly-2017"
OPENB = TRACES / "alibaba-gpu-v2023-openb"
ELASTICFLOW = TRACES / "elasticflow" / "throughputs_A100"
WEEK_S = 7 * 86400.0


@pytest.fixture(autouse=True)
def _traces_are_there() -> None:
    need_data("traces")


@pytest.mark.long
def test_itp_has_as_many_jobs_and_gpu_hours_as_its_authors_say() -> None:
    """69,351 jobs and 1.63 million GPU hours on ten clusters (README of the data)."""
    tables = [readers.read_itp(path) for path in sorted((ITP / "raw").glob("*.csv.gz"))]
    assert len(tables) == 10
    assert [len(jobs) for jobs, _ in tables] == [
        *(1595, 5778, 3011, 15802, 3629, 2396, 12699, 13047, 11134, 260)
    ]
    assert sum(len(jobs) for jobs, _ in tables) == 69_351
    assert all(report.rows_skipped == 0 for _, report in tables)
    hours = sum(demand_of(jobs).gpu_hours for jobs, _ in tables)
    assert hours == pytest.approx(1_632_719.7, abs=0.1)
    assert demand_of(tables[3][0]).peak_busy_gpus == 2025


@pytest.mark.long
def test_itp_variant_agrees_with_the_raw_tables() -> None:
    """ElasticFlow added columns to the same jobs; slack is 0.5 to 1.5 durations."""
    for raw in sorted((ITP / "raw").glob("*.csv.gz")):
        plain, _ = readers.read_itp(raw)
        varied, report = readers.read_itp(ITP / "elasticflow" / raw.name)
        assert report.rows_skipped == 0
        assert [(j.id, j.submit_s, j.duration_s, j.num_gpus) for j in plain] == [
            (j.id, j.submit_s, j.duration_s, j.num_gpus) for j in varied
        ]
        slack = [(j.deadline_s - j.submit_s) / j.duration_s for j in varied if j.deadline_s]
        assert len(slack) == len(varied)
        assert 0.49 <= min(slack) <= max(slack) <= 1.5


def test_elastic_work_is_the_published_number_of_iterations() -> None:
    """Rate times duration from the A100 tables is `num_iteration` of the variant, independently.

    The published numbers are rounded down, hence the one iteration.
    """
    path = ITP / "elasticflow" / "cluster03.csv.gz"
    instance, report = readers.itp_instance(path, num_hosts=64, scaling=ELASTICFLOW)
    assert report.num_dropped == 0
    assert report.altered == ()
    assert len(instance.jobs) == 3011
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            work = instance.job(row["job_id"]).work
            assert work == pytest.approx(int(row["num_iteration"]), abs=1.01)


def test_an_itp_week_makes_an_instance_without_losing_a_row() -> None:
    """Rows read are jobs in the instance or counted; the load is as asked."""
    instance, report = readers.itp_instance(
        ITP / "raw" / "cluster03.csv.gz",
        start_s=2_000_000.0,
        length_s=WEEK_S,
        load=0.85,
        slot_s=600.0,
    )
    assert report.rows_read == 3011 == len(instance.jobs) + report.num_dropped
    gpu_s = sum(j.work * j.configurations[0].demand[0] / MILLI for j in instance.jobs)
    assert gpu_s / WEEK_S / instance.topology.num_gpus == pytest.approx(0.85, rel=0.04)
    assert all(0 <= job.arrival_s < WEEK_S for job in instance.jobs)
    assert Instance.from_json(instance.to_json()) == instance


@pytest.mark.long
def test_philly_has_the_known_jobs_and_virtual_clusters() -> None:
    """82,247 jobs, 978,078 GPU hours, a peak of 1,243 GPUs, 15 VCs; the blank last line is none."""
    jobs, report = readers.read_philly(PHILLY / "philly_jobs_pollux.csv.gz")
    assert len(jobs) == 82_247
    assert report.rows_skipped == 0
    demand = demand_of(jobs)
    assert demand.gpu_hours == pytest.approx(978_078, abs=1)
    assert demand.peak_busy_gpus == 1243
    assert demand.largest_gang == 128
    assert len({job.tenant for job in jobs}) == 15
    largest = [job for job in jobs if job.tenant == "6214e9"]
    assert (len(largest), demand_of(largest).peak_busy_gpus) == (41_226, 596)


@pytest.mark.long
def test_philly_offsets_agree_with_two_other_conversions() -> None:
    """VC 103959 as ElasticFlow and Gavel converted it, jobs of over an hour among others.

    Gavel's arrivals begin 0, 219316, 251674, 251699 s; ElasticFlow's durations 976570, 1792395 s.
    """
    instance, _ = readers.philly_instance(
        PHILLY / "philly_jobs_pollux.csv.gz", vc="103959", vcs=PHILLY / "philly_vc.csv"
    )
    assert instance.topology.num_hosts == 8
    long = [(job.arrival_s, job.work) for job in instance.jobs if job.work >= 3600]
    first = long[0][0]
    assert [arrival - first for arrival, _ in long[:4]] == [0.0, 219_316.0, 251_674.0, 251_699.0]
    assert [work for _, work in long[:2]] == [976_570.0, 1_792_395.0]


def test_philly_machine_lists_disagree_as_known() -> None:
    """2,490 GPUs in the original list, 3,205 in the one revised from the utilisation log."""
    original, report = readers.read_philly_machines(PHILLY / "cluster_machine_list")
    assert (original.num_hosts, original.num_gpus) == (552, 2490)
    assert report.rows_skipped == 0
    revised, report = readers.read_philly_machines(PHILLY / "revised_machine_list.csv")
    assert (revised.num_hosts, revised.num_gpus) == (539, 3205)
    assert report.num_dropped == 13
    vcs, _ = readers.read_philly_vcs(PHILLY / "philly_vc.csv")
    assert (len(vcs), sum(vcs.values())) == (11, 352)


def test_openb_has_the_known_nodes() -> None:
    """1,523 nodes, 310 of them without GPUs, 6,212 GPUs; G2 alone 549 nodes of 8."""
    topology, report = readers.read_openb_nodes(OPENB / "openb_node_list_all_node.csv.gz")
    assert (topology.num_hosts, topology.num_gpus, report.rows_skipped) == (1523, 6212, 0)
    assert topology.gpu_types.count("G2") == 549
    assert topology.gpu_types.count(None) == 310
    assert topology.capacity[:, 1].sum() == 125_514 * MILLI
    assert topology.capacity[:, 2].sum() // 1024 == 597_684
    gpu_nodes, _ = readers.read_openb_nodes(OPENB / "openb_node_list_gpu_node.csv.gz")
    assert (gpu_nodes.num_hosts, gpu_nodes.num_gpus) == (1213, 6212)


def test_openb_has_the_known_pods() -> None:
    """8,152 pods: 1,088 without GPUs, 3,078 with a share, 6,086.8 GPUs in all; 897 never placed."""
    pods, report = readers.read_openb_pods(OPENB / "openb_pod_list_default.csv.gz")
    assert (len(pods), report.rows_skipped) == (8152, 0)
    assert sum(pod.gpu_milli == 0 for pod in pods) == 1088
    assert sum(0 < pod.gpu_milli < MILLI for pod in pods) == 3078
    assert sum(pod.gpu_milli == 8 * MILLI for pod in pods) == 44
    assert sum(pod.gpu_milli for pod in pods) == 6_086_800
    assert sum(pod.duration_s is None for pod in pods) == 897


@pytest.mark.long
def test_every_openb_list_is_read_to_the_last_row() -> None:
    """The default list and its 22 variants, with types and without, with times and without."""
    paths = sorted(OPENB.glob("openb_pod_list_*.csv.gz"))
    assert len(paths) == 23
    for path in paths:
        pods, report = readers.read_openb_pods(path)
        assert report.rows_skipped == 0, path.name
        assert len(pods) == report.rows_read > 7000


def test_an_openb_pod_that_fits_no_allowed_node_is_shown() -> None:
    """The variant drew constraints at random: one pod wants 120 cores of a type with 96."""
    instance, report = readers.openb_instance(
        OPENB / "openb_node_list_all_node.csv.gz", OPENB / "openb_pod_list_gpuspec33.csv.gz"
    )
    assert len(instance.jobs) == 8152 - 897 - 1
    (misfit,) = [tally for tally in report.dropped if tally.reason.startswith("fits no host")]
    assert misfit.examples == ("openb-pod-1639",)
    moldable = [job for job in instance.jobs if job.elasticity == "moldable"]
    assert moldable
    assert all(len({c.gpu_type for c in j.configurations}) > 1 for j in moldable)


def test_the_openb_snapshot_keeps_every_pod_of_a_list_without_times() -> None:
    """The multi-GPU variants ask for more than the cluster has: packing is the question."""
    instance, report = readers.openb_instance(
        OPENB / "openb_node_list_gpu_node.csv.gz",
        OPENB / "openb_pod_list_multigpu50.csv.gz",
        snapshot=True,
    )
    assert report.num_dropped == 0
    assert len(instance.jobs) == 9061


@pytest.mark.long
def test_only_the_published_files_name_their_source(tmp_path) -> None:
    """A file that was touched, however little, may be anything with those columns."""
    itp, philly = ITP / "raw" / "cluster10.csv.gz", PHILLY / "philly_jobs_pollux.csv.gz"
    nodes, pods = (OPENB / f"openb_{n}.csv.gz" for n in ("node_list_all_node", "pod_list_default"))
    made = (
        (readers.itp_instance(itp)[0], "MIT"),
        (readers.philly_instance(philly, max_jobs=50)[0], "CC BY 4.0"),
        (readers.openb_instance(nodes, pods, max_jobs=50)[0], "Apache-2.0"),
    )
    for instance, licence in made:
        assert instance.description["licence"].startswith(licence)
    touched = tmp_path / "cluster10.csv"
    touched.write_bytes(gzip.decompress(itp.read_bytes()) + b"\n")
    same, _ = readers.itp_instance(touched)
    assert same.fingerprint == made[0][0].replace(name=same.name).fingerprint
    assert "licence" not in same.description
    assert "none of its files" in same.description["source"]


@pytest.mark.long
def test_the_table_reader_reads_published_tables_as_their_own_readers_do() -> None:
    """Columns by their names alone: every published job table has the jobs its reader finds."""
    for path in sorted((ITP / "elasticflow").glob("cluster0[15].csv.gz")):
        own, _ = readers.itp_instance(path, num_hosts=100, name="same")
        table, _ = readers.table_instance(path, num_hosts=100, name="same")
        assert [(j.id, j.arrival_s, j.work, j.due_date_s, j.configurations) for j in own.jobs] == [
            (j.id, j.arrival_s, j.work, j.due_date_s, j.configurations) for j in table.jobs
        ]
    path = PHILLY / "philly_jobs_pollux.csv.gz"
    own, _ = readers.philly_instance(path, num_hosts=100)
    table, _ = readers.table_instance(path, num_hosts=100)
    assert [(j.arrival_s, j.work, j.tenant, j.configurations) for j in own.jobs] == [
        (j.arrival_s, j.work, j.tenant, j.configurations) for j in table.jobs
    ]


def test_all_published_scaling_tables_are_read() -> None:
    """Every cell is a rate or counted as missing: ElasticFlow's A100 and T4 tables."""
    tables, report = readers.read_scaling_tables(ELASTICFLOW)
    assert (len(tables), report.rows_read, report.rows_skipped) == (7, 17, 0)
    # deepspeech2 at 32 on 64 GPUs, and 3 x 3 zeros of resnet50_cifar10.
    assert sum(tally.count for tally in report.altered) == 10
    batches = [table for table in tables.values() if isinstance(table, BatchTable)]
    cells = sum(len(points) for table in batches for points in table.rates.values())
    assert cells + 10 == 17 * 7
    tables, report = readers.read_scaling_tables(ELASTICFLOW.parent / "throughputs_T4")
    assert (len(tables), report.rows_skipped) == (6, 0)


def test_pollux_tables_give_consolidated_and_spread_rates() -> None:
    """Six models; four GPUs of one host are a configuration of their own, and a faster one."""
    tables, report = readers.read_scaling_tables(TRACES / "pollux")
    assert sorted(tables) == ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"]
    assert report.rows_skipped == 0
    rates = {
        c.within: c.rate
        for c in readers.scaling_configurations(tables["imagenet"], 400)
        if c.num_tasks("worker") == 4
    }
    assert rates["host"] > rates[None]
