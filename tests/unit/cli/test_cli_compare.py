"""`alloc compare` and `alloc demo`: tables, stores, reports, interrupts."""

import json
import re

import pytest

import alloc.comparison
from alloc.cli.demo import DEMO_SCHEDULERS
from alloc.comparison import Comparison
from alloc.errors import InstanceError

PAIR = ("--schedulers", "fifo,srtf")
ESTIMATES = ("--knowledge", "estimate", "--work-error", 0.3)


def test_the_table_puts_schedulers_beside_the_optimum(run, instance_file):
    done = run("compare", instance_file, *PAIR)
    assert done.exit_code == 0, done.stderr
    for word in ["optimum", "fifo", "srtf", "gap to bound"]:
        assert word in done.stdout


@pytest.mark.long
def test_json_is_one_document_with_every_row(run, instance_file):
    done = run("compare", instance_file, *PAIR, *ESTIMATES, "--seeds", 2, "--json")
    document = json.loads(done.stdout)
    assert document["kind"] == "comparison"
    # The optimum once, and two schedulers with two seeds.
    assert len(document["rows"]) == 5
    assert {row["scheduler"] for row in document["rows"]} == {"optimum", "fifo", "srtf"}


def test_markdown_is_a_table_for_a_readme(run, instance_file):
    done = run("compare", instance_file, *PAIR, "--markdown")
    assert done.exit_code == 0
    assert "| scheduler |" in done.stdout


@pytest.mark.long
def test_a_family_stands_for_its_instances(run):
    done = run("compare", "elastic-tiny", "--schedulers", "fifo", "--by", "family", "--json")
    assert done.exit_code == 0, done.stderr
    names = {row["instance"] for row in json.loads(done.stdout)["rows"]}
    assert {"elastic-tiny/01", "elastic-tiny/05"} <= names


@pytest.mark.long
def test_what_is_said_of_one_of_several_instances_names_it(run):
    """Two tables, then what they come to: "here" must not be a riddle, nor said of a family."""
    asked = ("compare", "elastic-tiny/01", "elastic-tiny/02", "--schedulers", "fifo,srtf,best-fit")
    done = run(*asked, "-q")
    assert done.exit_code == 0, done.stderr
    assert "elastic-tiny/01: fifo and srtf tie: here they decide the same." in done.stdout
    assert "elastic-tiny/02, weighted JCT: FIFO takes" in done.stdout
    family = run(*asked, "-q", "--by", "family")
    assert family.exit_code == 0, family.stderr
    assert "tie: here" not in family.stdout
    assert "longer than needed" not in family.stdout


@pytest.mark.long
def test_all_means_every_scheduler(run, instance_file):
    from alloc.schedulers import scheduler_names
    from alloc.schedulers.registry import is_learned

    done = run("compare", instance_file, "--json")
    rows = json.loads(done.stdout)["rows"]
    assert {row["scheduler"] for row in rows} == {"optimum", *scheduler_names()}
    # A learned policy may be made for other instances than this.
    assert [r["error"] for r in rows if r["error"] and not is_learned(r["scheduler"])] == []
    assert done.exit_code == 0


@pytest.mark.long
def test_of_all_schedulers_those_made_for_other_instances_are_left_out(run, continuous_file):
    """Exact rounds need slots: that fails a comparison that asked for them, and no other."""
    done = run("compare", continuous_file, "--json", "--time-limit", 2)
    assert done.exit_code == 0, done.stderr
    assert "left out: exact-progress on two in a row: UnsupportedFeatureError" in done.stderr
    done = run("compare", continuous_file, "--schedulers", "exact-progress", "--time-limit", 2)
    assert done.exit_code == 1
    assert "failed: exact-progress" in done.stderr


def test_a_store_keeps_the_work(run, instance_file, tmp_path):
    store = tmp_path / "runs.sqlite"
    assert run("compare", instance_file, *PAIR, "--store", store).exit_code == 0
    assert Comparison.from_store(store).missing == 0
    again = run("compare", instance_file, *PAIR, "--store", store, "--json")
    assert again.exit_code == 0


def interrupt_after(pieces, monkeypatch):
    """Let Ctrl-C come when so many pieces of work are done."""
    compare = alloc.comparison.compare

    def interrupted(*arguments, progress, **options):
        def tell(event):
            progress(event)
            if event.done == pieces:
                raise KeyboardInterrupt

        return compare(*arguments, progress=tell, **options)

    monkeypatch.setattr(alloc.comparison, "compare", interrupted)


def test_an_interrupt_keeps_what_is_done(run, instance_file, tmp_path, monkeypatch):
    """Without --store the finished work still has a place, and the message names it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    interrupt_after(2, monkeypatch)
    done = run("compare", instance_file, *PAIR)
    assert done.exit_code == 130
    [store] = tmp_path.glob("alloc-compare-*/runs.sqlite")
    assert f"--store {store}" in done.stderr
    kept = Comparison.from_store(store)
    assert (kept.missing, kept.unbounded) == (0, ("two in a row",))
    # What is done is shown, and not only kept.
    assert "fifo" in done.stdout
    assert "srtf" in done.stdout


@pytest.mark.parametrize("store", [False, True])
def test_an_interrupt_before_the_first_row_says_how_to_go_on(
    run, instance_file, tmp_path, monkeypatch, store
):
    """There is nothing to keep yet, and the next time there will be."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(alloc.comparison, "compare", interrupted)
    chosen = ["--store", tmp_path / "mine.sqlite"] if store else []
    done = run("compare", instance_file, *PAIR, *chosen)
    assert done.exit_code == 130
    assert f"--store {chosen[1] if store else 'FILE'} keeps each row" in done.stderr
    assert list(tmp_path.glob("alloc-compare-*")) == []


def test_an_interrupt_names_the_store_that_was_chosen(run, instance_file, tmp_path, monkeypatch):
    interrupt_after(2, monkeypatch)
    store = tmp_path / "mine.sqlite"
    done = run("compare", instance_file, *PAIR, "--store", store)
    assert done.exit_code == 130
    assert f"finished work is in {store}" in done.stderr


def test_an_interrupt_says_which_rows_failed(run, continuous_file, tmp_path, monkeypatch):
    """A table without a row that failed looks as if nobody had asked for it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    interrupt_after(2, monkeypatch)
    words = ("--schedulers", "exact-progress,fifo", "--time-limit", 2)
    done = run("compare", continuous_file, *words)
    assert done.exit_code == 130
    assert "failed: exact-progress on " in done.stderr


def test_finished_work_is_named_even_if_it_cannot_be_shown(
    run, instance_file, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    interrupt_after(2, monkeypatch)

    def broken(place):
        raise InstanceError("the store cannot be read.")

    monkeypatch.setattr(Comparison, "from_store", broken)
    done = run("compare", instance_file, *PAIR)
    assert "error: the store cannot be read." in done.stderr
    assert "finished work is in " in done.stderr


def test_a_finished_comparison_leaves_no_litter(run, instance_file, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run("compare", instance_file, *PAIR).exit_code == 0
    assert list(tmp_path.glob("alloc-compare-*")) == []


@pytest.mark.parametrize("wrong", [["--schedulers", "fifoo"], [*PAIR, "--workers", 0]])
def test_a_refused_comparison_leaves_no_litter(run, instance_file, tmp_path, monkeypatch, wrong):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run("compare", instance_file, *wrong).exit_code == 2
    assert list(tmp_path.glob("alloc-compare-*")) == []


@pytest.mark.long
def test_a_row_that_failed_is_no_success(run, continuous_file):
    # An exact round needs slots; FIFO does not.
    done = run("compare", continuous_file, "--schedulers", "fifo,exact-progress", "--time-limit", 2)
    assert done.exit_code == 1
    assert "failed: exact-progress" in done.stderr
    assert "fifo" in done.stdout


@pytest.mark.long
def test_the_report_is_written_with_its_plots(run, instance_file, tmp_path):
    folder = tmp_path / "report"
    done = run("compare", instance_file, *PAIR, "--report", folder / "report.html")
    assert done.exit_code == 0, done.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "alloc compare" in page
    assert list((folder / "report-figures").glob("*.svg"))
    assert str(folder / "report.html") in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--schedulers", "fifo,stf"], 'did you mean "srtf"'),
        (["--schedulers", "fifo,fifo"], "twice"),
        (["--schedulers", ","], "no schedulers"),
        (["--knowledge", "everything"], "knowledge"),
        (["--objective", "progress"], "not a cost of schedules"),
        (["--json", "--markdown"], "exclude each other"),
        (["--by", "week"], "--by"),
        (["--workers", "0"], "--workers is 0"),
        (["--work-error", "-1", "--knowledge", "estimate"], "work_error"),
        (["--work-error", "50", "--knowledge", "estimate"], "work_error is 50"),
        ([*PAIR, "--work-error", "0.5"], "add --knowledge estimate"),
        ([*PAIR, "--speed-error", "0.5"], "add --knowledge estimate"),
        ([*PAIR, "--knowledge", "none"], 'srtf needs knowledge "estimate"'),
        ([*PAIR, "--objective", "makespan then mean_jct"], "has 2 levels"),
        ([*PAIR, "--seeds", "3"], "--seeds 3 changes nothing"),
    ],
)
def test_a_wrong_option_is_exit_2(run, instance_file, arguments, message):
    done = run("compare", instance_file, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr


def test_quiet_says_nothing(run, instance_file):
    done = run("compare", instance_file, *PAIR, "--quiet")
    assert done.exit_code == 0
    assert done.stderr == ""


def test_the_report_needs_a_folder(run, instance_file):
    done = run("compare", instance_file, *PAIR, "--report", f"{instance_file}/report.html")
    assert done.exit_code == 2
    assert "folder of a report" in done.stderr
    done = run("compare", instance_file, *PAIR, "--report", "week")
    assert done.exit_code == 2
    assert "--report week/report.html" in done.stderr


def test_one_instance_twice_is_refused(run, instance_file):
    done = run("compare", instance_file, instance_file, *PAIR)
    assert done.exit_code == 2
    assert "twice" in done.stderr


@pytest.mark.long
def test_the_demo_proves_the_optimum_and_leaves_a_report(run, tmp_path):
    """`make demo` is the first thing that anybody runs."""
    folder = tmp_path / "demo"
    done = run("demo", "elastic-tiny/04", "--report", folder / "report.html")
    assert done.exit_code == 0, done.stderr
    assert "optimum" in done.stdout
    assert "best found" not in done.stdout
    assert (folder / "report.html").exists()
    assert "report: " in done.stderr
    rows = re.findall(r"^│ (\S+)", done.stdout, re.MULTILINE)
    assert rows == ["optimum", *DEMO_SCHEDULERS]
    assert len(DEMO_SCHEDULERS) == 8
    # Two of them tie and the table says why; it ends with what it comes to.
    assert "first-fit and best-fit tie: " in done.stdout
    *_, last = re.sub(r"(?<!\.)\n", " ", done.stdout.strip()).splitlines()
    assert re.search(r"FIFO takes [\d.,]+ % longer than needed; best schedulers?: .* %\.$", last)


@pytest.mark.long
def test_the_demo_as_json_is_one_document(run, tmp_path):
    done = run("demo", "elastic-tiny/01", "--report", tmp_path / "demo.html", "--json")
    assert json.loads(done.stdout)["kind"] == "comparison"


def test_a_scheduler_takes_part_with_options(run):
    """As the table would call it, beside the same without them."""
    names = "drf, drf(rules=dl2),fifo"
    done = run("compare", "elastic-tiny/04", "--schedulers", names, "--json")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["scheduler"] for row in rows} == {"optimum", "drf", "drf(rules=dl2)", "fifo"}


@pytest.mark.parametrize(
    ("schedulers", "sentence"),
    [("drf(dl2)", "write KEY=VALUE"), ("drf(rules=dl3)", "rules"), ("drf(rules=dl2", "unknown")],
)
def test_options_that_are_none_are_refused(run, instance_file, schedulers, sentence):
    done = run("compare", instance_file, "--schedulers", schedulers)
    assert done.exit_code == 2
    assert sentence in done.stderr
