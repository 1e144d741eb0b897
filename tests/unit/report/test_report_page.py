"""The report: one page that says what is proved, needs nothing else, and can be read by all."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from report_pages import HOSTILE, Broken, Page, make_instance

from alloc import solving
from alloc.comparison import Comparison, compare
from alloc.comparison.tables import show_percent
from alloc.errors import AllocError, InstanceError, UnsupportedFeatureError
from alloc.report import write_report
from alloc.report.explorer import explorer_data
from alloc.report.verdict import contrast, mean_gaps, verdict


@pytest.fixture(scope="module")
def folder(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(comparison, folder / "index.html", scheduler="fifo", figures=folder / "figures")
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "index.html").read_text(encoding="utf-8"))


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


def test_an_unknown_scheduler_is_refused_before_anything_is_written(
    comparison: Comparison, tmp_path: Path
):
    with pytest.raises(InstanceError, match=r'no scheduler "fiffo"; did you mean "fifo"'):
        write_report(comparison, tmp_path / "page.html", scheduler="fiffo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
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


@pytest.mark.long
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
