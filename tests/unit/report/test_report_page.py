"""The report: one page that says what is proved, needs nothing else, and can be read by all."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from alloc import solving
from alloc.comparison import Comparison, compare
from alloc.comparison.tables import show_percent
from alloc.errors import AllocError, InstanceError, UnsupportedFeatureError
from alloc.instances import load
from alloc.plotting.gantt import amount_held
from alloc.plotting.utilisation import held_over_time
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement
from alloc.report import explorer, write_report
from alloc.report.explorer import explorer_data
from alloc.report.sections import MAX_LINES, told_apart
from alloc.report.verdict import contrast, mean_gaps, ties, verdict
from alloc.schedulers.state import Knowledge
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup


class Broken:
    """A scheduler that fails at its first decision."""

    name = "broken"
    needs: Knowledge = "none"
    information = "nothing"

    def reset(self):
        """Nothing to forget."""

    def decide(self, state):
        raise RuntimeError("out of ideas")


VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = '<script>alert("x")</script>&'


class Page(HTMLParser):
    """A page taken apart: tags must close in order, and nothing may be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        self.links += [found[name] for name in ("href", "src", "srcset", "data") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def make_instance(name: str, count: int = 4) -> Instance:
    """Jobs of one or two GPUs on one host with two; FIFO and the optimum differ."""
    ways = tuple(
        Configuration((TaskGroup("worker", n, 1000, 1000),), rate)
        for n, rate in ((1, 1.0), (2, 1.6))
    )
    jobs = tuple(Job(f"job-{j}", 5.0 * j, 30.0 - 5.0 * j, ways) for j in range(count))
    cluster = flat_cluster("one host", HostType("host", 2, "a100", 8000, 4096), 1)
    return Instance(name, cluster, jobs, slot_s=10.0, description={"source": "made by hand"})


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(
        [make_instance("small-01"), make_instance("small-02", 3)],
        ["fifo", "drf"],
        seeds=(0, 1),
        time_limit_s=20,
    )


@pytest.fixture(scope="module")
def folder(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(comparison, folder / "index.html", scheduler="fifo", figures=folder / "figures")
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def test_nothing_is_fetched_from_anywhere(folder: Path, page: Page):
    """The page is mailed, archived and opened without a network: every link stays inside it."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert not any("src" in attributes for attributes in page.all("script"))
    assert not page.all("link")
    assert not page.all("iframe")


def test_only_the_pages_own_script_runs(folder: Path, page: Page):
    """Its policy names the script by its digest; what else is in script elements is data."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    kinds = [attributes.get("type") for attributes in page.all("script")]
    assert kinds == ["application/json", "application/json", None]
    code = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert policy.endswith(f"script-src 'sha256-{digest}'")
    assert not re.search(r"\bon[a-z]+=", text.replace(code, ""))


def test_without_its_script_the_page_shows_everything(page: Page):
    """What the script adds is hidden until it has run; nothing else is."""
    hidden = [attributes for _, attributes in page.tags if "hidden" in attributes]
    assert [attributes["class"] for attributes in hidden] == ["explorer"] * 2
    assert len(page.all("figure")) == 10


def test_interactive_charts_have_the_numbers_of_the_figures(comparison: Comparison):
    """One source: runs, completion times and shares are those of the schedules."""
    instance = comparison.instance("small-01")
    data = explorer_data(comparison, instance, "fifo", 1)
    minute = {"s": 1.0, "min": 60.0}[data["unit"]]
    names = [name for one in data["series"] for name in one["name"].split(" = ")]
    assert sorted(names) == ["drf", "fifo", "optimum"]
    assert "fifo" in data["series"][data["shown"]]["name"]
    for one in data["series"]:
        name = one["name"].partition(" = ")[0]
        schedule = comparison.schedule("small-01", name)
        jcts = sorted(comparison.jcts("small-01", name))
        assert one["jct"][0] == pytest.approx([jct / minute for jct in jcts], rel=1e-4)
        assert one["jct"][1][-1] == 1.0
        edges, held = held_over_time(instance, schedule)
        assert one["use"][0] == pytest.approx([edge / minute for edge in edges], rel=1e-4)
        assert one["use"][1] == pytest.approx(list(held), rel=1e-4)
        bars = one["gantt"]["bars"]
        assert one["gantt"]["by"] == "host"
        assert len(bars) == len(schedule.runs)
        for (_, _, start, end, job, gpus), run in zip(bars, schedule.runs, strict=True):
            assert data["jobs"][job] == run.job
            assert [start, end] == pytest.approx([run.start_s / minute, run.end_s / minute])
            assert gpus == amount_held(instance, run)
        lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for row, lane, start, end, *_ in bars:
            lanes.setdefault((row, lane), []).append((start, end))
        for spans in lanes.values():
            spans.sort()
            assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def test_a_schedule_without_hosts_is_drawn_by_job(comparison: Comparison):
    instance = comparison.instance("small-01")
    schedule = comparison.schedule("small-01", "fifo")
    bare = Schedule(tuple(replace(run, tasks=()) for run in schedule.runs))
    found = explorer._gantt(instance, bare, 100, 1.0)
    assert found["by"] == "job"
    assert found["rows"] == [job.id for job in instance.jobs]


def many_runs(count: int, num_hosts: int) -> tuple[Instance, Schedule]:
    """Each job holds half of a host for 100 s; a new one arrives every second."""
    ways = (Configuration((TaskGroup("worker", 4, 1000, 1000),), 1.0),)
    jobs = tuple(Job(f"job-{j}", float(j), 100.0, ways) for j in range(count))
    cluster = flat_cluster("many", HostType("host", 8, "a100", 8000, 4096), num_hosts)
    runs = tuple(
        Run(job.id, 0, job.arrival_s, job.arrival_s + 100.0,
            (TaskPlacement(cluster.hosts[j % num_hosts].id, "worker", 4),))
        for j, job in enumerate(jobs)
    )  # fmt: skip
    return Instance("many", cluster, jobs), Schedule(runs)


def test_a_schedule_of_very_many_runs_is_averaged_and_says_so():
    """The area is kept: means times their steps are the GPU time that is held."""
    instance, schedule = many_runs(20_000, 500)
    found = explorer._gantt(instance, schedule, 2_000, 1.0)
    assert found["aggregated"] == "20,000 bars in 500 rows"
    assert len(found["rows"]) <= 40
    assert len(explorer.to_script(found)) < 40_000
    step_s = found["end"] / len(found["means"][0])
    sizes = [8 * min(13, 500 - 13 * k) for k in range(len(found["means"]))]
    held = sum(
        size * step_s * sum(row) / 100 for size, row in zip(sizes, found["means"], strict=True)
    )
    # Each cell is rounded to a whole percent.
    assert held == pytest.approx(20_000 * 4 * 100.0, abs=0.005 * 8 * 500 * found["end"])


def test_tasks_without_gpus_are_no_share_of_the_gpus():
    """The cluster has GPUs that no job asks for: what is averaged is then tasks."""
    instance, schedule = many_runs(200, 10)
    ways = (Configuration((TaskGroup("worker", 4, cpu_milli=1000),), 1.0),)
    jobs = tuple(replace(job, configurations=ways) for job in instance.jobs)
    found = explorer._gantt(instance.replace(jobs=jobs), schedule, 10, 1.0)
    assert found["whole"] == "of the most that any row holds"
    assert max(max(row) for row in found["means"]) == 100


def test_of_many_instances_only_the_schedules_of_the_figures_are_explored(comparison: Comparison):
    """The curves of all schedulers are there, whose figure they replace."""
    instance = comparison.instance("small-01")
    few, many = (explorer_data(comparison, instance, "fifo", count) for count in (1, 50))
    assert [one["name"] for one in many["series"]] == [one["name"] for one in few["series"]]
    assert all(one["gantt"] for one in few["series"])
    for one in many["series"]:
        shown = {"optimum", "fifo"} & set(one["name"].split(" = "))
        assert bool(one["gantt"]) == bool(shown)


def test_ids_are_unique_and_links_find_them(page: Page):
    """Figures of one library share ids; on one page they would take each other's clip paths."""
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links} <= set(page.ids)
    text = " ".join(f"{value}" for _, attributes in page.tags for value in attributes.values())
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(page.ids)


def test_every_figure_is_on_the_page(page: Page):
    """For each of two instances: gaps, Gantt charts, utilisation, distribution, convergence."""
    figures = [a["aria-labelledby"] for a in page.all("svg")]
    kinds = ["gaps", "gantt", "utilisation", "jct", "convergence"]
    for kind in kinds:
        assert sum(f"-{kind}-" in figure for figure in figures) == 2, kind
    assert len(figures) == 10
    assert len(page.all("figcaption")) == 10


def test_every_figure_is_a_file(folder: Path):
    names = {path.name for path in (folder / "figures").iterdir()}
    assert len(names) == 20
    assert {name.rsplit(".", 1)[1] for name in names} == {"png", "svg"}


def test_figures_have_words_for_those_who_cannot_see(page: Page):
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert svg["aria-labelledby"] in page.ids
    assert "Bars of the gap to the certified bound on small-01: optimum 0 %, fifo" in page.text
    assert "the last job completes at" in page.text


def test_tables_have_headers_and_captions(page: Page):
    """A screen reader names row and column of every number."""
    assert len(page.all("table")) == 5
    assert len(page.all("caption")) == 4
    scopes = [attributes.get("scope") for attributes in page.all("th")]
    assert set(scopes) == {"col", "row"}


def test_structure_of_the_page(page: Page):
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == len(page.all("main")) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_the_page_says_what_is_proved_and_by_whom(comparison: Comparison, page: Page):
    certificate = comparison.bound("small-01").certificate
    assert "No schedule of small-01 has a weighted JCT below" in page.text
    assert "The schedule found attains it (checked independently of the solver)" in page.text
    assert certificate.backend_version in page.text
    assert comparison.bound("small-01").fingerprint in page.text
    assert "Bound on the mean JCT" in page.text
    assert "Every scheduler was told the exact work of each job that has arrived" in page.text
    assert "order of arrival" in page.text


def test_the_page_says_how_to_make_it_again(comparison: Comparison, page: Page, tmp_path: Path):
    assert "comparison = compare(" in page.text
    assert "seeds=[0, 1]" in page.text
    assert "Python" in page.text
    assert comparison.experiment.environment["numpy"] in page.text
    write_report(comparison, tmp_path / "page.html", command="alloc compare small-01 --seed 0")
    again = Page((tmp_path / "page.html").read_text())
    assert "alloc compare small-01 --seed 0" in again.text
    assert "The same from Python:" in again.text


def test_the_call_on_the_page_is_python(comparison: Comparison, page: Page):
    """It is pasted into an editor: it must at least be the language."""
    from alloc.report.report import python_call

    compile(python_call(comparison), "call", "exec")


def test_a_family_table_only_where_there_is_a_family(comparison: Comparison, page: Page, tmp_path):
    assert "small, all instances" in page.text
    alone = compare([make_instance("alone-01")], ["fifo"], time_limit_s=20)
    write_report(alone, tmp_path / "alone.html")
    assert "all instances" not in Page((tmp_path / "alone.html").read_text()).text.lower()


def test_light_and_dark_and_paper(folder: Path):
    """The figures' ink follows the page's; colours have a set for the dark and one for print."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "currentColor" in text
    assert "#1b1e24" not in text.split("</style>")[1].lower()


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_of_all_texts(folder: Path):
    """Every text colour reaches 4.5:1 on page and panel (WCAG 2.2 AA): by day, night, on paper."""
    style = (folder / "index.html").read_text(encoding="utf-8").split("</style>")[0]
    blocks = re.findall(r":root \{([^}]*)\}", style)
    assert len(blocks) == 3
    for block in blocks:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for text in ("ink", "quiet", "link", "warn"):
            for ground in ("page", "panel"):
                light, dark = sorted((luminance(colours[text]), luminance(colours[ground])))
                assert (dark + 0.05) / (light + 0.05) >= 4.5, (text, ground)


def test_hostile_names_stay_text(tmp_path: Path):
    """Instance files come from anybody; their names must never become part of the page."""
    instance = make_instance(HOSTILE)
    instance = instance.replace(
        jobs=(instance.jobs[0].replace(id=HOSTILE), *instance.jobs[1:]),
        description={HOSTILE: HOSTILE},
    )
    written = write_report(
        compare([instance], ["fifo"], time_limit_s=20), tmp_path / "x.html", title=HOSTILE
    )
    text = written[0].read_text()
    page = Page(text)
    assert HOSTILE in page.text
    # The data of the charts, and the page's own script; nothing that a name has opened or closed.
    assert [a.get("type") for a in page.all("script")] == ["application/json", None]
    assert text.lower().count("<script") == text.lower().count("</script") == 2
    (data,) = re.findall(r'<script type="application/json" id="[^"]*">(.*?)</script>', text)
    assert HOSTILE in json.loads(data)["jobs"]


def test_failures_and_missing_proofs_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without a bound and with a scheduler that fails, there is still a page, and it says so."""

    def refuse(*args, **kwargs):
        raise UnsupportedFeatureError("no such method for this instance")

    monkeypatch.setattr(solving, "solve", refuse)
    comparison = compare([make_instance("small-01")], [Broken(), "fifo"], time_limit_s=20)
    (path,) = write_report(comparison, tmp_path / "page.html", scheduler="broken")
    page = Page(path.read_text())
    assert "Nothing is proved about small-01: no such method for this instance" in page.text
    assert "2 cells failed" in page.text
    assert "RuntimeError: out of ideas" in page.text
    assert "unknown: it never ran" in page.text
    assert [a["aria-labelledby"] for a in page.all("svg")] != []


def test_unfinished_comparisons_are_reported_as_such(comparison: Comparison, tmp_path: Path):
    partial = Comparison(
        comparison.experiment,
        comparison.instances,
        dict(list(comparison.bounds.items())[:1]),
        dict(list(comparison.outcomes.items())[:3]),
    )
    (path,) = write_report(partial, tmp_path / "page.html")
    assert (
        "This comparison is unfinished: 5 cells are still to be run." in Page(path.read_text()).text
    )
    nothing = Comparison(comparison.experiment, comparison.instances, {}, {})
    with pytest.raises(InstanceError, match="nothing in the comparison is solved yet"):
        write_report(nothing, tmp_path / "none.html")


def test_what_is_drawn_by_default_differs(comparison: Comparison, tmp_path: Path):
    """Two equal schedules show nothing: FIFO is drawn, else the scheduler furthest off."""
    (path,) = write_report(comparison, tmp_path / "page.html")
    assert "of the optimum (above) and of fifo (below)" in path.read_text()
    assert contrast(comparison) == "fifo"
    exact = compare([make_instance("small-01")], ["drf", "srtf"], time_limit_s=20)
    gaps = mean_gaps(exact)
    assert contrast(exact) == max(gaps, key=lambda name: gaps[name])


def test_the_verdict_says_how_far_fifo_and_the_best_are(comparison: Comparison, page: Page):
    """Held to the rows: what the sentence says can be read in the table."""
    for fingerprint in comparison.bounds:
        gaps = mean_gaps(comparison, fingerprint)
        said = verdict(comparison, fingerprint)
        assert said is not None
        assert f"FIFO takes {show_percent(gaps['fifo'])} longer than needed" in said
        assert said in page.text
        if min(gaps.values()) < gaps["fifo"]:
            assert f"best scheduler: {min(gaps, key=lambda n: gaps[n])}" in said


def test_an_unproved_comparison_says_at_most(comparison: Comparison):
    """The gap is to the bound: of a bound that nobody attains it says no more than that."""
    fingerprint, bound = next(iter(comparison.bounds.items()))
    assert bound.certificate is not None
    assert bound.result is not None
    loosened = replace(bound.result, certificate=bound.certificate.replace(status="feasible"))
    open_ = replace(bound, result=loosened)
    loose = replace(comparison, bounds={**comparison.bounds, fingerprint: open_})
    assert "FIFO takes at most" in (verdict(loose, fingerprint) or "")


def test_a_scheduler_that_failed_with_a_seed_is_in_no_mean(comparison: Comparison):
    """Its mean would be over other seeds: neither it is the best, nor FIFO the worst, by that."""
    fingerprint = next(iter(comparison.bounds))
    outcomes = dict(comparison.outcomes)
    for key, found, label, seed in comparison.experiment.cells:
        if (found, label, seed) == (fingerprint, "fifo", 1):
            outcomes[key] = replace(outcomes[key], objective=math.inf, schedule=None)
    partial = replace(comparison, outcomes=outcomes)
    assert list(mean_gaps(partial, fingerprint)) == ["drf"]
    said = verdict(partial, fingerprint)
    assert said is not None
    assert "FIFO" not in said
    assert "fifo" not in said


def test_all_that_are_best_are_named():
    names = ["fifo", "first-fit", "best-fit"]
    found = compare([load("elastic-tiny/02")], names, time_limit_s=20)
    (fingerprint,) = found.bounds
    gaps = mean_gaps(found, fingerprint)
    assert gaps["first-fit"] == gaps["best-fit"] < gaps["fifo"]
    said = verdict(found, fingerprint) or ""
    assert said.endswith(
        f"best schedulers: first-fit and best-fit, {show_percent(gaps['first-fit'])}."
    )


@pytest.mark.parametrize(
    ("objective", "words"),
    [("makespan", "longer than needed"), ("tardiness", "above what is possible")],
)
def test_only_time_taken_is_longer_than_needed(objective, words):
    """Tardiness is seconds beyond a due date: nobody takes it."""
    instance = make_instance("small-01")
    jobs = tuple(replace(job, due_date_s=job.arrival_s + 1.0) for job in instance.jobs)
    late = replace(instance, jobs=jobs)
    found = compare([late], ["fifo", "drf"], objective=objective, time_limit_s=20)
    (fingerprint,) = found.bounds
    assert words in (verdict(found, fingerprint) or "")


def test_schedulers_that_tie_are_named_with_the_reason():
    """First fit and best fit decide the same where there is one host; on two, only hosts differ."""
    names = ["fifo", "first-fit", "best-fit"]
    one = compare([make_instance("small-01")], names, time_limit_s=20)
    (fingerprint,) = one.bounds
    (sentence,) = ties(one, fingerprint)
    assert sentence.endswith("tie: here they decide the same.")
    assert "first-fit and best-fit" in sentence
    rows = {row.scheduler: row.objective for row in one.rows}
    assert rows["first-fit"] == rows["best-fit"]


def test_a_plot_has_at_most_eight_curves_and_equal_ones_are_one():
    gaps = {f"s{k}": 1.0 + k for k in range(12)}
    jcts = {"optimum": [0.0], **{name: [gap] for name, gap in gaps.items()}, "twin": [3.0]}  # as s2
    groups = told_apart(jcts, gaps, "s7")
    assert len(groups) == MAX_LINES
    assert [names[0] for names in groups] == sorted(
        (names[0] for names in groups), key=list(jcts).index
    )
    assert ["optimum"] in groups
    assert ["s7"] in groups
    assert ["s11"] in groups
    few = told_apart({"optimum": [1.0], "a": [2.0], "b": [2.0]}, {"a": 1.0, "b": 1.0}, "a")
    assert few == [["optimum"], ["a", "b"]]


def test_an_unknown_scheduler_is_refused_before_anything_is_written(
    comparison: Comparison, tmp_path: Path
):
    with pytest.raises(InstanceError, match=r'no scheduler "fiffo"; did you mean "fifo"'):
        write_report(comparison, tmp_path / "page.html", scheduler="fiffo")
    assert list(tmp_path.iterdir()) == []


def test_an_old_report_survives_a_failed_write(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a full disk there is the old page or the new one, never half of one."""
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(AllocError, match=r"page.html: cannot be written"):
        write_report(comparison, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.long
def test_the_same_comparison_gives_the_same_page(comparison: Comparison, tmp_path: Path):
    """Reports can be compared and kept under version control."""
    first, second = (
        write_report(comparison, tmp_path / name)[0].read_bytes() for name in ("a.html", "b.html")
    )
    assert first == second


@pytest.mark.long
def test_each_instance_has_its_own_table_after_a_resume(tmp_path: Path):
    """On a resume, bounds come in another order than instances; tables must not be swapped."""
    first, second = make_instance("first-01"), make_instance("second-01", 2)
    store = tmp_path / "runs.db"
    compare([second], ["fifo"], time_limit_s=20, store=store)
    for comparison in (
        compare([first, second], ["fifo"], time_limit_s=20, store=store),
        Comparison.from_store(store),
    ):
        (path,) = write_report(comparison, tmp_path / "page.html")
        text = Page(path.read_text()).text
        parts = text.split("What is proved")[1:]
        for part, name in zip(parts, ("first-01", "second-01"), strict=True):
            assert f"Schedulers against the certified bound: {name}" in part
            assert f"No schedule of {name} has" in part


def test_what_is_not_proved_is_nowhere_called_the_optimum(comparison: Comparison, tmp_path: Path):
    """In no chart and no table: a schedule found is not the best possible."""
    fingerprint, bound = next(iter(comparison.bounds.items()))
    assert bound.certificate is not None
    assert bound.result is not None
    loosened = replace(bound.result, certificate=bound.certificate.replace(status="feasible"))
    bounds = {**comparison.bounds, fingerprint: replace(bound, result=loosened)}
    loose = replace(comparison, bounds=bounds)
    data = explorer_data(loose, loose.instance(fingerprint), "fifo", 1)
    names = [name for one in data["series"] for name in one["name"].split(" = ")]
    assert "best found" in names
    assert "optimum" not in names
    assert sum(one["is_best"] for one in data["series"]) == 1
    (path,) = write_report(loose, tmp_path / "page.html")
    page = Page(path.read_text())
    titles = [words for words in page.words if words.startswith(("Bars of", "Lines of", "Distrib"))]
    name = loose.instance(fingerprint).name
    about = [words for words in titles if f" {name}" in words]
    assert len(about) >= 3
    assert not any("optimum" in words for words in about)
