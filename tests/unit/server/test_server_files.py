"""Uploaded files: what they are, what is made of them, and one sentence for each that is wrong."""

import base64
import contextlib
import gzip
import inspect
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from server_harness import wait_for

from alloc.documents import format_of
from alloc.instances.readers import READERS, read_instance
from alloc.instances.readers.kubernetes import kubernetes_instance
from alloc.instances.readers.openb import openb_instance
from alloc.server.bodies import read_request
from alloc.server.operations import Limits, operations
from alloc.server.problems import ProblemError
from alloc.server.requests_files import ROLES, UploadedFile
from alloc.server.runs_files import _options
from alloc.server.uploads import columns_of, laid_out

ROOT = Path(__file__).parents[3]
EXAMPLES, TRACES = ROOT / "examples", ROOT / "tests" / "data" / "traces"
HEAD = "JobID,Submit,Elapsed,GPUs\n"
ROW = "a,0,10,1\n"


def upload(path, **more):
    return {"name": path.name, "content": path.read_text(encoding="utf-8"), **more}


def table(content, name="jobs.csv"):
    return [{"name": name, "content": content}]


def run(operation, files, **more):
    """Run an operation as a worker does, and return its document."""
    known = operations()[operation]
    body = json.dumps({"files": files, **more}).encode()
    made = known.execute(read_request(body, known.request), lambda line: None, Limits(60.0, 1))
    return json.loads(made)


def refused(files, operation="read-files", **more):
    """Return the only sentence that is said of files, and the place that it is about."""
    with pytest.raises(ProblemError) as error:
        run(operation, files, **more)
    found = error.value.problem
    assert found.status == 422
    assert found.detail.rstrip().endswith((".", "?"))
    assert tempfile.gettempdir() not in found.detail
    return found.detail, found.errors[0]["pointer"]


SETS = [
    (["jobs.csv"], ["table"]),
    (["kubernetes.json"], ["kubernetes"]),
    (["kubernetes-new-job.json", "kubernetes.json"], ["kubernetes", "kubernetes"]),
    (["squeue.json", "slurm-nodes.json"], ["slurm", "slurm-nodes"]),
    (
        ["slurm-topology.conf", "slurm-accounts.txt", "squeue.json", "slurm-nodes.json"],
        ["topology", "slurm-accounts", "slurm", "slurm-nodes"],
    ),
]


@pytest.mark.parametrize(("names", "roles"), SETS, ids=[names[0] for names, _ in SETS])
def test_files_are_told_by_their_content_whatever_they_are_called(names, roles):
    files = [{**upload(EXAMPLES / name), "name": f"file-{k}"} for k, name in enumerate(names)]
    found = run("inspect-files", files)
    assert [one["role"] for one in found["files"]] == roles
    assert set(found["roles"]) == set(ROLES)


@pytest.mark.parametrize(("names", "roles"), SETS, ids=[names[0] for names, _ in SETS])
def test_what_is_read_is_what_the_readers_read(names, roles):
    """The server has no reading of its own: instance and account are those of the library."""
    found = run("read-files", [upload(EXAMPLES / name) for name in names])
    paths = {role: str(EXAMPLES / name) for name, role in zip(names, roles, strict=True)}
    options: dict[str, Any] = {}
    if "slurm" in roles:
        options = {"nodes": paths["slurm-nodes"], "accounts": paths.get("slurm-accounts")}
    elif len(names) > 1:
        first, *more = (str(EXAMPLES / name) for name in names)
        paths["kubernetes"], options = first, {"more": more}
    kind = next(role for role in roles if role in READERS)
    there, account = read_instance(kind, paths[kind], **options)
    here = format_of("instance").decode(found["instance"])
    assert [job.id for job in here.jobs] == [job.id for job in there.jobs]
    assert here.running == there.running
    assert found["report"]["rows_read"] == account.rows_read
    assert found["report"]["num_dropped"] == account.num_dropped
    assert f"{len(there.jobs)} jobs" in found["headline"]


def test_swf_sacct_and_node_lists_are_told_too():
    for path, role in (
        (TRACES / "made.swf", "swf"),
        (TRACES / "sacct.txt", "table"),
        (TRACES / "openb-nodes.csv", "topology"),
        (ROOT / "tests/data/topologies/racks.csv", "topology"),
        (ROOT / "tests/data/topologies/kueue.yaml", "topology"),
        (ROOT / "tests/data/topologies/kubernetes-nodes.json", "topology"),
    ):
        assert run("inspect-files", [upload(path)])["files"][0]["role"] == role, path.name


def test_a_topology_file_is_the_cluster_of_the_jobs_and_alone_a_topology():
    cluster = upload(EXAMPLES / "topology.conf")
    both = run("read-files", [cluster, *table(HEAD + ROW)], host_type="dgx-h100")
    alone = run("read-files", [cluster], host_type="dgx-h100")
    assert len(both["instance"]["topology"]["hosts"]) == len(alone["topology"]["hosts"]) == 12
    assert alone["instance"] is None
    assert both["report"]["also"][-1]["files"] == ["topology.conf"]
    sentence, _ = refused([cluster])
    assert "name their machine, such as dgx-h100" in sentence


def test_rows_left_out_are_counted_and_shown_with_line_and_column():
    found = run("read-files", table(HEAD + ROW + "b,0,ten,1\nc,0,10,0\n"))
    assert found["headline"].endswith("2 of 3 rows left out.")
    (skipped,) = found["report"]["skipped"]
    assert "Elapsed" in skipped["reason"]
    assert skipped["examples"] == ["line 3: b,0,ten,1"]


def test_columns_are_guessed_shown_and_can_be_named():
    files = table("when,how long,cards\n0,10,1\n")
    (file,) = run("inspect-files", files)["files"]
    assert file["columns"]["missing"] == ["arrival", "duration", "gpus"]
    assert file["columns"]["header"] == ["when", "how long", "cards"]
    sentence, place = refused(files)
    assert place == "/columns"
    assert '"when", "how long", "cards"' in sentence
    named = {"arrival": "when", "duration": "how long", "gpus": "cards"}
    found = run("read-files", files, columns=named)
    assert len(found["instance"]["jobs"]) == 1
    assert {one["is"]: one["guessed"] for one in found["columns"]["chosen"]} == {
        key: False for key in named
    }
    assert refused(files, columns={"gpus": "card"})[0].count('did you mean "cards"?') == 1


@pytest.mark.parametrize("header", ["Submit,GPUs", "Elapsed,x", "gpu_time,submit,end,start,GPU"])
def test_what_is_guessed_of_part_of_a_table_is_what_is_guessed_of_all_of_it(tmp_path, header):
    """Columns that are still to be named change nothing about the others."""
    names = header.split(",")
    (tmp_path / "part.csv").write_text(f"{header}\n")
    whole = f"{header},submission_time,duration,num_gpus"
    (tmp_path / "whole.csv").write_text(f"{whole}\n")
    part = columns_of(tmp_path / "part.csv", {})
    full = columns_of(tmp_path / "whole.csv", {})
    assert full.missing == ()
    assert set(part.missing).isdisjoint(part.chosen)
    for key, column in part.chosen.items():
        assert column.name in names
        if key in ("arrival", "duration", "gpus"):
            assert full.chosen[key].name in (column.name, "submission_time", "num_gpus", "duration")


HOSTILE = {
    "a MiB of quotes": '"' * 2**20,
    "lines of quotes": ('"' * 100 + "\n") * 10_000,
    "null characters": "a\0,b\0\n\0,\0\n",
    "a million columns": ",".join(f"c{k}" for k in range(10**6)),
    "thousands of columns": ",".join(f"c{k}" for k in range(3000)) + "\n1\n",
    "formulas": HEAD + "=cmd|' /C calc'!A0,=1+1,@SUM(1),+1\n",
    "nothing": "",
    "blanks": " \n \n",
    "only a header": HEAD,
    "no header": "1,2,3\n4,5,6\n",
    "a column twice": "id,id,gpus\n1,2,3\n",
    "no row that can be read": HEAD + "a,x,y,z\n" * 5,
    "JSON cut short": '{"jobs": [',
    "JSON that is nothing known": '{"a": 1}',
    "JSON of brackets": "[" * 50_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_table_is_one_short_sentence(content):
    sentence, place = refused(table(content))
    assert "jobs.csv" in sentence
    assert len(sentence) < 1000
    assert place.startswith(("/files", "/columns"))


SHAPES = (
    "{}",
    "[1]",
    "null",
    '{"kind": "List", "items": [{"kind": []}, null]}',
    '{"kind": "Pod"}',
    '{"jobs": [1, null, {}]}',
    '{"jobs": [{"job_state": 5, "nodes": []}], "meta": []}',
    '{"nodes": [1, {}]}',
    '{"schema_version": [], "kind": "topology"}',
    "Account|User|GrpTRES\nx|y|gres/gpu=z",
    "; Version: 2\n1 2 3",
    "SwitchName=a Nodes=b[1-",
    "- a: [",
    "<graphml>",
    HEAD + "1,1e400,1e308,1e9",
)


@pytest.mark.parametrize("role", [None, *ROLES])
def test_no_content_breaks_a_reader_whatever_it_is_said_to_be(role):
    """Every refusal is a sentence; what is no refusal of ours would be an internal error."""
    cut = [path.read_text(encoding="utf-8")[:-40] for path in sorted(EXAMPLES.glob("*.json"))]
    for content in (*SHAPES, *cut):
        file = {"name": "f", "content": content, "role": role}
        for operation in ("inspect-files", "read-files"):
            with contextlib.suppress(ProblemError):
                run(operation, [file])


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "../../etc/passwd", "\0", "", 5, True])
def test_no_value_of_an_option_breaks_a_reader(value):
    for option in run("inspect-files", table(HEAD + ROW))["options"]:
        with contextlib.suppress(ProblemError):
            run("read-files", table(HEAD + ROW), options={option["name"]: value})


def test_a_formula_in_a_cell_stays_text():
    found = run("read-files", table(HEAD + "=1+1,0,10,1\n"))
    assert found["instance"]["jobs"][0]["id"] == "=1+1"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.csv", "y.csv"),
        ("..", "file"),
        ("a\n\x00b", "a__b"),
    ],
)
def test_the_name_of_a_file_reaches_no_other_place(name, shown):
    before = Path.cwd()
    assert run("inspect-files", table(HEAD, name))["files"][0]["name"] == shown
    assert Path.cwd() == before


def test_files_of_one_name_stay_apart():
    cluster = upload(EXAMPLES / "topology.conf")
    files = [{**cluster, "name": "x"}, *table(HEAD + ROW, "x")]
    found = run("inspect-files", files)["files"]
    assert [(one["name"], one["role"]) for one in found] == [("x", "topology"), ("2-x", "table")]


def test_no_file_takes_the_place_of_another_whatever_they_are_called():
    """What tells two of a name apart may itself be the name of a third."""
    names = ("3-x", "x", "x", "3-x", "2-x")
    contents = ("a,b,c\n", "d,e\n", "f\n", "g,h,i,j\n", "k,l,m,n,o\n")
    files = [{**table(c, n)[0], "role": "table"} for n, c in zip(names, contents, strict=True)]
    with laid_out([UploadedFile(**one) for one in files]) as uploads:
        assert [one.path.read_text() for one in uploads] == list(contents)


@pytest.mark.parametrize("name", ["\0", "\0" * 7, "\0" * 200])
def test_a_column_that_the_file_does_not_have_is_never_taken_for_named(name):
    files = table("when,x\n1,2\n")
    sentence, place = refused(files, "inspect-files", columns={"gpus": name * 9})
    assert "has no column" in sentence
    assert place == "/columns"


def test_a_reading_larger_than_the_server_takes_back_is_refused():
    """Packed, millions of rows are small; the process that serves has to load what is made."""
    rows = "".join(f"{k},0,10,1\n" for k in range(2_000))
    packed = base64.b64encode(gzip.compress((HEAD + rows).encode())).decode()
    file = {"name": "jobs", "content": packed, "encoding": "base64"}
    known = operations()["read-files"]
    body = read_request(json.dumps({"files": [file]}).encode(), known.request)
    made = known.execute(body, lambda line: None, Limits(60.0, 1))
    size = len(made)
    assert known.execute(body, lambda line: None, Limits(60.0, 1, size)) == made
    with pytest.raises(ProblemError, match=f"of {size:,} bytes, .* at most {size - 1:,}; read few"):
        known.execute(body, lambda line: None, Limits(60.0, 1, size - 1))


def test_bytes_come_in_base64_and_gzip_is_told_by_its_content():
    packed = base64.b64encode(gzip.compress((HEAD + ROW).encode())).decode()
    file = {"name": "jobs", "content": packed, "encoding": "base64"}
    assert run("read-files", [file])["headline"].startswith("1 job ")
    assert refused([{**file, "content": "!"}])[1] == "/files/0/content"


@pytest.mark.parametrize(
    "options",
    [{"nodes": "/etc/passwd"}, {"topology": "/etc/passwd"}, {"more": "/etc/passwd"}, {"map": "x"}],
)
def test_no_option_names_a_file_of_the_server(options):
    for files in (table(HEAD + ROW), [upload(EXAMPLES / "kubernetes.json")]):
        sentence, place = refused(files, options=options)
        assert "is no option of these files" in sentence
        assert place == "/options"


BUILDERS: dict[str, Callable[..., object]] = {
    "kubernetes": kubernetes_instance,
    "openb": openb_instance,
}
"""What makes the instance, where the registry has a function before it."""


@pytest.mark.parametrize("kind", READERS)
def test_every_option_that_is_a_path_says_so(kind):
    """The server offers those that do not; so a reader cannot open a file by a flag forgotten."""
    options = {option.name: option for option in READERS[kind].options}
    build: Callable[..., object] = BUILDERS.get(kind, READERS[kind].build)
    of_files = {
        name
        for name, one in inspect.signature(build).parameters.items()
        if "PathLike" in str(one.annotation) and one.kind is not one.POSITIONAL_ONLY
    }
    for name in of_files & options.keys():
        assert options[name].is_path, name
    for option in options.values():
        if re.search(r"\b(files?|folder|list of|table of)\b", option.help, re.IGNORECASE):
            assert option.is_path or "writes times" in option.help, option.name
    assert not any(option.is_path for option in _options(kind))


def test_no_value_of_any_option_opens_a_file(tmp_path, monkeypatch):
    """Whatever takes text is given the path of a file, in every way that text can be taken."""
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    opened = []
    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *a, **k: opened.append(path) or real(path, *a, **k)
    )
    sets = [["jobs.csv"], ["kubernetes.json"], ["squeue.json", "slurm-nodes.json"]]
    for files in ([upload(EXAMPLES / name) for name in names] for names in sets):
        kind = next(
            role
            for role in ("table", "kubernetes", "slurm")
            if role in {one["role"] for one in run("inspect-files", files)["files"]}
        )
        for option in READERS[kind].options:
            if option.type is str:
                with contextlib.suppress(ProblemError):
                    run("read-files", files, options={option.name: str(secret)})
        with contextlib.suppress(ProblemError):
            run("read-files", files, columns={"gpus": str(secret)}, host_type=str(secret))
    assert opened
    assert secret not in opened


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slot_s": "x"}, "give a number"),
        ({"slot_s": True}, "give a number"),
        ({"max_jobs": 1.5}, "give a whole number"),
        ({"deadlines": 3}, "Give one of"),
        ({"lenght_s": 3}, 'did you mean "length_s"'),
    ],
)
def test_options_of_the_reader_are_checked_before_anything_is_read(options, words):
    sentence, place = refused(table(HEAD + "spoilt"), options=options)
    assert words in sentence
    assert place == "/options"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["jobs.csv", "squeue.json"], "hold jobs in 2 ways"),
        (["slurm-accounts.txt"], "goes with squeue --json"),
        (["squeue.json"], "add what scontrol show nodes --json printed, or a topology file"),
        (["jobs.csv", "jobs.csv"], "give one of them"),
    ],
)
def test_files_that_do_not_go_together_are_refused(names, words):
    assert words in refused([upload(EXAMPLES / name) for name in names])[0]


def test_what_a_killed_worker_left_behind_goes_with_a_later_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new = tmp_path / "alloc-files-old", tmp_path / "alloc-files-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "jobs.csv").write_text(HEAD)
    days_ago = time.time() - 3 * 86_400
    os.utime(old, (days_ago, days_ago))
    run("inspect-files", table(HEAD))
    assert [path.name for path in tmp_path.iterdir()] == ["alloc-files-new"]


def test_a_reading_is_a_job_with_a_view(shared):
    """Over HTTP it is submitted, watched and fetched like any other; its account is shown."""
    files = table(HEAD + ROW + "<b>,0,ten,1\n")
    job = wait_for(shared, shared.post("/v1/read-files", json={"files": files}).json()["id"])
    assert job["state"] == "done"
    assert shared.get(job["links"]["result"]).json()["kind"] == "reading"
    shown = shared.get(f"{job['links']['self']}/view").text
    assert "1 of 2 rows left out" in shown
    assert "line 3: &lt;b&gt;,0,ten,1" in shown
    job = wait_for(shared, shared.post("/v1/inspect-files", json={"files": files}).json()["id"])
    assert "guessed" in shared.get(f"{job['links']['self']}/view").text
    wrong = shared.post("/v1/read-files", json={"files": []})
    assert wrong.status_code == 422
    too_much = shared.post("/v1/read-files", json={"files": table("x" * 300_000)})
    assert too_much.status_code == 413
