"""`alloc instances`: list, show, generate, import, readers, schema."""

import json

import jsonschema
import pytest

from alloc import Instance
from alloc.documents import json_schema
from alloc.instances import load, manifest


def test_the_list_holds_every_stored_instance(run):
    done = run("instances", "list")
    assert done.exit_code == 0
    for entry in manifest():
        assert entry.id in done.stdout


def test_the_list_of_a_family_holds_no_other(run):
    listed = json.loads(run("instances", "list", "--family", "elastic-tiny", "--json").stdout)
    assert {entry["id"].split("/")[0] for entry in listed} == {"elastic-tiny"}
    assert {"jobs", "hosts", "gpus", "lower", "upper", "proved"} <= set(listed[0])


def test_show_says_what_is_in_an_instance(run):
    done = run("instances", "show", "elastic-small/01")
    assert done.exit_code == 0
    for word in ["10 (malleable)", "12 GPUs", "1200 s", load("elastic-small/01").fingerprint]:
        assert word in done.stdout


def test_show_as_json_is_the_instance_document(run):
    done = run("instances", "show", "elastic-tiny/01", "--json")
    jsonschema.validate(json.loads(done.stdout), json_schema("instance"))
    assert Instance.from_json(done.stdout) == load("elastic-tiny/01")


def test_generate_writes_the_instance_that_the_generator_makes(run, tmp_path):
    path = tmp_path / "new.json"
    done = run(
        *("instances", "generate", "new", "--num-jobs", 4, "--num-hosts", 3, "--seed", 5),
        *("-O", "run-slots=[1, 2]", "-O", "arrivals=start", "-o", path),
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    made = Instance.load(path)
    assert (made.name, len(made.jobs), made.topology.num_hosts) == ("new", 4, 3)
    assert {job.arrival_s for job in made.jobs} == {0.0}
    assert "4 jobs on 6 GPUs" in done.stderr


def test_generate_prints_to_a_pipe_what_solve_reads(run):
    made = run("instances", "generate", "piped", "--num-jobs", 2, "--num-hosts", 2)
    solved = run("solve", "-", "--json", input=made.stdout)
    assert json.loads(solved.stdout)["certificate"]["status"] == "optimal"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("arrival=start", 'did you mean "arrivals"'),
        ("num_jobs=3", "num_jobs"),
        ("arrivals", "KEY=VALUE"),
        ("=3", "KEY=VALUE"),
        ("arrivals=never", "never"),
    ],
)
def test_a_wrong_generator_option_is_exit_2(run, option, message):
    done = run("instances", "generate", "new", "-O", option)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_option_set_twice_is_refused(run):
    done = run("instances", "generate", "new", "-O", "slot_s=300", "-O", "slot-s=600")
    assert done.exit_code == 2
    assert "set twice" in done.stderr


@pytest.fixture
def trace(tmp_path):
    """Write an ITP job table with one row that cannot be read."""
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,submission_time,duration,num_gpu\na,0,3600,1\nb,60,1800,2\nc,120,oops,1\n",
        encoding="utf-8",
    )
    return path


def test_import_makes_an_instance_and_accounts_for_every_row(run, trace, tmp_path):
    path = tmp_path / "trace.json"
    done = run("instances", "import", "itp", trace, "-O", "cluster_gpus=8", "-o", path)
    assert done.exit_code == 0, done.stderr
    assert len(Instance.load(path).jobs) == 2
    assert "2 rows read, 1 unreadable" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ipt"], 'did you mean "itp"'),
        (["itp", "-O", "cluster_gpu=8"], 'did you mean "cluster_gpus"'),
        (["itp", "-O", "cluster_gpus=many"], "whole number"),
        (["openb"], "nodes"),
    ],
)
def test_a_wrong_import_is_exit_2(run, trace, arguments, message):
    kind, *options = arguments
    done = run("instances", "import", kind, trace, *options)
    assert done.exit_code == 2, done.output
    assert message in done.stderr


def test_the_readers_are_listed_with_their_options(run):
    done = run("instances", "readers")
    assert done.exit_code == 0
    for word in ["itp", "philly", "openb", "cluster_gpus", "required"]:
        assert word in done.stdout
    listed = json.loads(run("instances", "readers", "--json").stdout)
    assert {reader["kind"] for reader in listed} >= {"itp", "philly", "openb"}


@pytest.mark.parametrize("kind", ["instance", "solution", "result", "topology"])
def test_the_schema_is_the_published_one(run, kind):
    assert json.loads(run("instances", "schema", kind).stdout) == json_schema(kind)


OWN = (
    "Job;Sent;Hours;Cards\n"
    "a;2024-05-31 10:00:00;1;8\n"
    "b;2024-05-31 10:01:00;2.5;16\n"
    "c;2024-05-31 09:59:00;-1;16\n"
)
MAP = ("--map", "id=Job,arrival=Sent,duration=Hours", "--map", "gpus=Cards")


@pytest.fixture
def own(tmp_path):
    """Write a job table in nobody's layout, and a cluster of four hosts on two leaves."""
    table, cluster = tmp_path / "own.csv", tmp_path / "topology.conf"
    table.write_text(OWN, encoding="utf-8")
    cluster.write_text(
        "SwitchName=l0 Nodes=h[0-1]\nSwitchName=l1 Nodes=h[2-3]\nSwitchName=s Switches=l[0-1]\n",
        encoding="utf-8",
    )
    return table, ("--topology", cluster, "--host-type", "dgx-h100")


def test_a_table_of_ones_own_is_imported_with_a_map_on_ones_own_cluster(run, own, tmp_path):
    table, cluster = own
    path = tmp_path / "own.json"
    unit = ("-O", "duration_unit=h")
    done = run("instances", "import", "table", table, *MAP, *unit, *cluster, "-o", path)
    assert done.exit_code == 0, done.stderr
    assert "own.csv: 2 rows read, 1 unreadable, 0 left out" in done.stderr
    assert "as told: id=Job, arrival=Sent, duration=Hours (h), gpus=Cards" in done.stderr
    made = Instance.load(path)
    assert [(job.id, job.arrival_s, job.work) for job in made.jobs] == [
        ("a", 0.0, 3600.0),
        ("b", 60.0, 9000.0),
    ]
    assert (made.topology.levels, made.topology.num_gpus) == (("spine", "leaf"), 32)
    assert made.description["cluster"] == "topology file topology.conf"
    shown = run("instances", "show", path)
    assert "own.csv, a file of the user" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--map", "id=Job"], "no column looks like the arrival; say which it is with map"),
        (["--map", "id=Jbo"], 'has no column "Jbo" for id; did you mean "Job"'),
        ([*MAP, "-O", "map=id=Job"], '"map" is set twice'),
        ([*MAP, "--host-type", "dgx-h100"], "add --topology FILE, or leave it out"),
        ([*MAP, "--topology", "none.conf"], "none.conf: there is no such file"),
    ],
)
def test_a_wrong_import_of_a_table_is_one_sentence(run, own, arguments, message):
    done = run("instances", "import", "table", own[0], *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_a_topology_replaces_the_cluster_in_every_command(run, own, tmp_path):
    """Also where the document has none, and where its own would be too small for its jobs."""
    cluster = own[1]
    queue = {
        "schema_version": 1,
        "kind": "instance",
        "name": "queue",
        "jobs": [
            {
                "id": "wide",
                "arrival_s": 0,
                "work": 100,
                "elasticity": "rigid",
                "configurations": [
                    {"rate": 1, "tasks": [{"role": "worker", "count": 4, "gpu_milli": 8000}]}
                ],
            }
        ],
    }
    small = {
        "name": "small",
        "host_types": [{"name": "one", "num_gpus": 1, "gpu_type": "t4"}],
        "hosts": [{"id": "x", "type": "one"}],
    }
    for name, document in (("none", queue), ("small", {**queue, "topology": small})):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        assert run("solve", path).exit_code == 2
        for command in (
            ("solve", path, "--json"),
            ("place", path, "--json"),
            ("simulate", path, "--scheduler", "fifo", "--json"),
            ("compare", path, "--schedulers", "fifo", "--json"),
        ):
            done = run(*command, *cluster)
            assert done.exit_code == 0, (command, done.stderr)
            assert "topology.conf: 3 rows read" in done.stderr
            json.loads(done.stdout)
    piped = run("place", "-", *cluster, input=json.dumps(queue))
    assert piped.exit_code == 0, piped.stderr
    stored = run("simulate", "elastic-tiny/01", "--scheduler", "fifo", *cluster)
    assert stored.exit_code == 0, stored.stderr


def test_a_problem_without_a_cluster_of_its_own_takes_no_topology(run, own, tmp_path):
    from alloc.instances.checkpointing import pretraining

    path = tmp_path / "run.json"
    pretraining(num_phases=3).to_json(path)
    for problem in (path, "planning-tiny"):
        done = run("solve", problem, *own[1])
        assert done.exit_code == 2
        assert "--topology gives the cluster of an instance; leave it out" in done.stderr


def test_gangs_are_generated_too(run, tmp_path):
    path = tmp_path / "gangs.json"
    mix = ("-O", 'gpus={"1": 3, "8": 1}', "-O", "run_s=[[0, 60], [1, 600]]")
    done = run(
        "instances", "generate", "g", "--generator", "gangs", "--num-jobs", 9, *mix, "-o", path
    )
    assert done.exit_code == 0, done.stderr
    made = Instance.load(path)
    assert {job.configurations[0].demand[0] for job in made.jobs} <= {1000, 8000}
    assert {job.elasticity for job in made.jobs} == {"rigid"}
    done = run("instances", "generate", "g", "--generator", "gang")
    assert (done.exit_code, "choose elastic or gangs" in done.stderr) == (2, True)
    done = run("instances", "generate", "g", "--generator", "gangs", "-O", "max_ps=3")
    assert 'no parameter "max_ps"' in done.stderr
