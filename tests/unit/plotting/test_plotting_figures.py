"""Figures: what is drawn is what the schedules say, at every size, and it can be read by all."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from alloc.certificate import Certificate
from alloc.comparison import Interval
from alloc.errors import AllocError, InstanceError
from alloc.plotting import (
    TracePoint,
    inline_svg,
    new_figure,
    plot_convergence,
    plot_gantt,
    plot_gantt_pair,
    plot_gaps,
    plot_jct_distribution,
    plot_utilisation,
    save_figure,
    svg_text,
)
from alloc.plotting.axes import time_unit
from alloc.plotting.palette import INK, MUTED, OKABE_ITO, line_styles
from alloc.plotting.trace import trace_of
from alloc.plotting.utilisation import held_over_time, mean_over_stretches
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement
from alloc.result import Limits, Result
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

SIZES = ((3.5, 2.5), (7.0, 4.0), (12.0, 8.0))


@pytest.fixture(autouse=True)
def _no_window(monkeypatch: pytest.MonkeyPatch):
    """Fresh figures must not look for a screen, and are closed after the test."""
    mpl.use("agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def make_elastic(num_jobs: int = 2, gpu_milli: int = 1000) -> Instance:
    """Jobs of 1, 2 or 4 workers, job k arriving at 10 k seconds, on four GPUs (or cores)."""
    ways = tuple(
        Configuration((TaskGroup("worker", n, gpu_milli, 1000),), rate)
        for n, rate in ((1, 1.0), (2, 2.0), (4, 3.0))
    )
    jobs = tuple(Job(f"job-{j}", 10.0 * j, 40.0, ways) for j in range(num_jobs))
    kind = HostType("host", 2 * (gpu_milli > 0), "a100" if gpu_milli else None, 2000, 0)
    return Instance("toy", flat_cluster("toy", kind, 2), jobs, slot_s=10.0)


@pytest.fixture
def instance() -> Instance:
    return make_elastic()


@pytest.fixture
def schedule() -> Schedule:
    """job-0: 2 GPUs to 10 s, then 1; job-1: 2 GPUs from 10 s. Both complete at 30 s."""
    return Schedule(
        (Run("job-0", 1, 0.0, 10.0), Run("job-0", 0, 10.0, 30.0), Run("job-1", 1, 10.0, 40.0))
    )


def artist(ax, gid: str):
    (found,) = [child for child in ax.get_children() if child.get_gid() == gid]
    return found


def bars_of(ax) -> list[tuple[float, float, float]]:
    """Start, end and middle row of each bar."""
    boxes = [path.get_extents() for path in artist(ax, "runs").get_paths()]
    return [(box.x0, box.x1, (box.y0 + box.y1) / 2) for box in boxes]


def test_bars_are_the_runs(instance: Instance, schedule: Schedule):
    """One bar a run, from its start to its end, in the row of its job."""
    ax = plot_gantt(instance, schedule)
    assert bars_of(ax) == [(0.0, 10.0, 0.0), (10.0, 30.0, 0.0), (10.0, 40.0, 1.0)]
    assert ax.get_xlabel() == "time (s)"


def test_marks_are_arrivals_and_completions(instance: Instance, schedule: Schedule):
    """job-1 does 2 work units a second: 40 units from 10 s are done at 30 s, inside its run."""
    ax = plot_gantt(instance, schedule)
    assert artist(ax, "arrivals").get_xdata().tolist() == [0.0, 10.0]
    done = artist(ax, "completions").get_xdata().tolist()
    assert done[0] == pytest.approx(30.0)
    assert done[1] == pytest.approx(30.0)


def test_a_run_that_failed_ends_with_a_cross(instance: Instance, schedule: Schedule):
    """job-1 is done at 30 s, so what its host does at 40 s is no failure of its own."""
    on = (TaskPlacement("host-0", "worker", 1),)
    placed = Schedule(tuple(replace(run, tasks=on) for run in schedule.runs))
    down = (Outage("host-0", 10.0, 11.0), Outage("host-0", 40.0, 41.0))
    ax = plot_gantt(instance.replace(outages=down), placed)
    crosses = artist(ax, "failures")
    assert (crosses.get_xdata().tolist(), list(crosses.get_ydata())) == ([10.0], [0])
    assert not [c for c in plot_gantt(instance, placed).get_children() if c.get_gid() == "failures"]


def test_equal_amounts_have_equal_colours(instance: Instance, schedule: Schedule):
    """Two GPUs look like two GPUs in each row, and unlike one."""
    colours = artist(plot_gantt(instance, schedule), "runs").get_facecolors()
    assert np.allclose(colours[0], colours[2])
    assert not np.allclose(colours[0], colours[1])


def test_rows_are_in_order_of_arrival(instance: Instance, schedule: Schedule):
    """Whatever the order in the file."""
    ax = plot_gantt(instance.replace(jobs=instance.jobs[::-1]), schedule)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["job-0", "job-1"]
    assert bars_of(ax)[2][2] == 1.0


def test_times_are_in_a_unit_that_suits(instance: Instance):
    """Ten hours are not 36,000 s on an axis."""
    ax = plot_gantt(instance, Schedule((Run("job-0", 0, 3600.0, 36000.0),)))
    assert ax.get_xlabel() == "time (h)"
    assert bars_of(ax) == [(1.0, 10.0, 0.0)]


@pytest.mark.parametrize(
    ("longest_s", "name"), [(0.5, "s"), (179.0, "s"), (180.0, "min"), (20000, "h"), (3e5, "days")]
)
def test_time_units(longest_s: float, name: str):
    assert time_unit(longest_s).name == name


def test_jobs_that_never_complete_are_marked(instance: Instance):
    """A job left behind must not look like one that was never there."""
    ax = plot_gantt(instance, Schedule((Run("job-0", 1, 0.0, 30.0),)))
    assert artist(ax, "incomplete").get_ydata().tolist() == [1]
    assert "not complete (1)" in ax.get_legend_handles_labels()[1]


def test_without_gpus_tasks_are_counted(schedule: Schedule):
    ax = plot_gantt(make_elastic(gpu_milli=0), schedule)
    assert {"1 task", "2 tasks"} <= set(ax.get_legend_handles_labels()[1])


def test_runs_without_gpus_are_grey():
    """Beside GPU jobs a CPU job holds no GPU: no shade of the scale, but a grey of its own."""
    cpu = Job("cpu", 0.0, 10.0, (Configuration((TaskGroup("ps", 1, 0, 1000),), 1.0),))
    instance = make_elastic()
    mixed = instance.replace(jobs=(*instance.jobs, cpu))
    ax = plot_gantt(mixed, Schedule((Run("cpu", 0, 0.0, 10.0), Run("job-0", 1, 0.0, 20.0))))
    assert np.allclose(artist(ax, "runs").get_facecolors()[0], mpl.colors.to_rgba(MUTED))


def test_long_names_keep_their_ends(schedule: Schedule):
    """Generated names differ in their last digits; cutting there would make them all alike."""
    instance = make_elastic()
    renamed = instance.jobs[0].replace(id="a-very-long-name-of-a-model-17")
    ax = plot_gantt(instance.replace(jobs=(renamed, instance.jobs[1])), Schedule(schedule.runs[2:]))
    assert ax.get_yticklabels()[0].get_text() == "a-very-long…model-17"


def test_pairs_share_their_scales(instance: Instance, schedule: Schedule):
    """Equal lengths and colours must mean the same in both charts, or the pair misleads."""
    short = Schedule((Run("job-0", 0, 0.0, 40.0), Run("job-1", 2, 10.0, 30.0)))
    above, below = plot_gantt_pair(instance, (schedule, short), ("optimum", "fifo"))
    assert above.get_xlim() == below.get_xlim()
    assert above.get_ylim() == below.get_ylim()
    assert (above.get_title("left"), below.get_title("left")) == ("optimum", "fifo")
    one_above = artist(above, "runs").get_facecolors()[1]
    one_below = artist(below, "runs").get_facecolors()[0]
    assert np.allclose(one_above, one_below)
    assert "4 GPUs" in above.get_legend_handles_labels()[1]


def test_two_hundred_jobs_stay_legible():
    """No label on a row that is too thin for one, no gap that outshines the bars, few artists."""
    instance = make_elastic(200)
    runs = tuple(Run(f"job-{j}", j % 3, 10.0 * j, 10.0 * j + 100.0) for j in range(200))
    figure = new_figure(7.0, 5.0)
    ax = plot_gantt(instance, Schedule(runs), ax=figure.add_subplot())
    assert ax.get_yticklabels() == []
    assert ax.get_ylabel() == "200 jobs, by arrival"
    assert len(bars_of(ax)) == 200
    heights = {round(p.get_extents().height, 6) for p in artist(ax, "runs").get_paths()}
    assert heights == {1.0}
    assert len(ax.get_legend_handles_labels()[1]) <= 10


def test_an_empty_schedule_can_be_drawn(instance: Instance):
    """A scheduler that did nothing is a finding, and no reason to crash."""
    assert bars_of(plot_gantt(instance, Schedule(()))) == []


def test_utilisation_steps_by_hand(instance: Instance, schedule: Schedule):
    """4 GPUs: 2 of them to 10 s, 3 to 30 s, 2 to 40 s."""
    edges, held = held_over_time(instance, schedule)
    assert edges.tolist() == [0.0, 10.0, 30.0, 40.0]
    assert held.tolist() == [0.5, 0.75, 0.5]
    ax: Any = plot_utilisation(instance, {"optimum": schedule})
    values, drawn_edges, _ = ax.patches[0].get_data()
    assert values.tolist() == [50.0, 75.0, 50.0]
    assert drawn_edges.tolist() == [0.0, 10.0, 30.0, 40.0]
    assert ax.get_ylabel() == "GPUs held (%)"


def test_averaging_keeps_the_area():
    """A smoothed line must not show more or less use than there was."""
    edges, values = np.array([0.0, 1.0, 4.0, 10.0]), np.array([1.0, 0.0, 0.5])
    grid, means = mean_over_stretches(edges, values, 4)
    assert grid.tolist() == [0.0, 2.5, 5.0, 7.5, 10.0]
    assert means.tolist() == pytest.approx([0.4, 0.2, 0.5, 0.5])
    assert (means * np.diff(grid)).sum() == pytest.approx((values * np.diff(edges)).sum())


def test_many_steps_are_averaged_and_it_says_so(instance: Instance):
    runs = tuple(Run("job-0", k % 2, 10.0 * k, 10.0 * k + 5.0) for k in range(1000))
    ax: Any = plot_utilisation(instance, {"fifo": Schedule(runs)})
    assert ax.get_ylabel() == "GPUs held (%, averaged)"
    assert ax.patches[0].get_data().values.size == 400


def test_utilisation_of_what_is_not_there(instance: Instance, schedule: Schedule):
    with pytest.raises(InstanceError, match=r'resource "gpus".*Known: gpu_milli'):
        held_over_time(instance, schedule, "gpus")
    with pytest.raises(InstanceError, match=r"its cluster has no memory_mib"):
        held_over_time(instance, schedule, "memory_mib")


def test_a_scheduler_keeps_its_colour(instance: Instance, schedule: Schedule):
    """In a report, drf must be the same colour in each figure, whoever else is drawn."""
    everyone = ["optimum", "fifo", "drf"]
    lines = plot_jct_distribution({name: [1.0, 2.0] for name in everyone}).lines
    use = plot_utilisation(instance, {"drf": schedule}, names=everyone).patches[0]
    assert use.get_edgecolor() == mpl.colors.to_rgba(lines[2].get_color())


def test_distribution_steps_by_hand():
    """Of JCTs 10, 20, 20, 40: a quarter is done at 10 s, three quarters at 20 s, all at 40 s."""
    ax: Any = plot_jct_distribution({"fifo": [20.0, 10.0, 40.0, 20.0]})
    x, y = ax.lines[0].get_data()
    assert x.tolist() == [0.0, 10.0, 20.0, 20.0, 40.0, 40.0]
    assert y.tolist() == [0.0, 25.0, 50.0, 75.0, 100.0, 100.0]
    assert ax.lines[0].get_drawstyle() == "steps-post"
    assert ax.get_xlabel() == "job completion time (s)"


def test_jobs_that_never_complete_keep_the_curve_down():
    ax: Any = plot_jct_distribution({"fifo": [10.0, math.inf]})
    x, y = ax.lines[0].get_data()
    assert y.tolist() == [0.0, 50.0, 50.0]
    assert x.max() == 10.0


def test_nobody_completes():
    ax: Any = plot_jct_distribution({"fifo": [math.inf]})
    _, y = ax.lines[0].get_data()
    assert not y.any()


def test_wide_spreads_are_logarithmic():
    """Minutes and weeks in one picture: on a linear axis the minutes would be a wall."""
    ax = plot_jct_distribution({"fifo": [60.0, 6e5], "drf": [90.0, 6e5]})
    assert ax.get_xscale() == "log"
    assert "log scale" in ax.get_xlabel()


def test_gap_bars_by_hand():
    """Sorted from the best, with the interval's ends, and a word where there is no gap."""
    ax: Any = plot_gaps(
        {
            "fifo": Interval(0.4, 0.3, 0.55, 5),
            "optimum": Interval(0.0, None, None, 1),
            "late": Interval(math.nan, None, None, 0),
            "drf": Interval(0.1, 0.1, 0.1, 5),
        }
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "optimum",
        "drf",
        "fifo",
        "late",
    ]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.0, 10.0, 40.0, 0.0])
    (ends,) = [c.get_segments()[0][:, 0].tolist() for c in ax.collections]
    assert ends == pytest.approx([30.0, 55.0])
    assert [text.get_text() for text in ax.texts] == ["0 %", "10.0 %", "40.0 %", "no gap"]


def test_convergence_by_hand():
    """Before anything is known, nothing is drawn: no zero that looks like a bound."""
    ax: Any = plot_convergence(
        [TracePoint(0.0, None, 5.0), TracePoint(1.0, 20.0, 8.0), TracePoint(2.0, 10.0, 10.0)]
    )
    incumbent, bound = ax.lines
    assert np.isnan(incumbent.get_ydata()[0])
    assert incumbent.get_ydata()[1:].tolist() == [20.0, 10.0]
    assert bound.get_ydata().tolist() == [5.0, 8.0, 10.0]


def result_with(log: tuple[str, ...], objective: float = 100.0, bound: float = 99.0) -> Result:
    certificate = Certificate(
        "feasible", objective, bound, "min", "weighted_jct", "malleable", "m", "1", 0, 1, 9.0, "f"
    )
    return Result(None, certificate, log)


def test_the_trace_of_a_log():
    """Values are in slots of 10 s; column generation proves nothing yet, so it is left out."""
    log = (
        "    0.10 s  first schedule: 15.0000 weighted slots; alone 5.0000",
        "    0.20 s  column generation 1: master 9.9000, Lagrangian 9.9500, 4 columns",
        "    1.00 s  price-guided insertion: 10.0000, bound 9.9000",
        "a line of another kind",
    )
    assert trace_of(result_with(log), 10.0) == [
        TracePoint(0.1, 150.0, 50.0),
        TracePoint(1.0, 100.0, pytest.approx(99.0)),  # type: ignore[arg-type]
        TracePoint(9.0, 100.0, 99.0),
    ]


@pytest.mark.parametrize(
    ("line", "slot_s"),
    [
        ("    0.10 s  first schedule: 9.0000 weighted slots; alone 5.0000", 10.0),
        ("    0.10 s  first schedule: 15.0000 weighted slots; alone 9.9900", 10.0),
        ("    0.10 s  first schedule: 15.0000 weighted slots; alone 5.0000", None),
        ("nothing of use", 10.0),
    ],
)
def test_a_log_that_contradicts_its_certificate_is_not_drawn(line: str, slot_s: float | None):
    """A figure must not show a better value or bound than what is proved in the end."""
    assert trace_of(result_with((line,), bound=95.0), slot_s) == []


def test_the_solver_still_writes_a_log_that_can_be_read(instance: Instance):
    """If the engine words its log anew, the convergence figure would vanish unnoticed."""
    from alloc.solving import solve

    result = solve(instance, limits=Limits(seconds=20))
    points = trace_of(result, 10.0)
    assert len(points) >= 2
    assert points[-1].incumbent == result.certificate.objective


def draw_gantt(ax):
    plot_gantt(make_elastic(3), Schedule((Run("job-1", 1, 10.0, 30.0),)), title="Gantt", ax=ax)


def draw_utilisation(ax):
    runs = Schedule((Run("job-1", 1, 10.0, 30.0),))
    plot_utilisation(make_elastic(), {"optimum": runs, "fifo": runs}, title="Use", ax=ax)


def draw_jct(ax):
    names = [f"scheduler-{k}" for k in range(12)]
    plot_jct_distribution({n: [1.0 + k, 5.0] for k, n in enumerate(names)}, title="JCT", ax=ax)


def draw_gaps(ax):
    plot_gaps({f"s{k}": Interval(0.1 * k, 0.0, 0.2 * k, 3) for k in range(9)}, title="Gap", ax=ax)


def draw_convergence(ax):
    plot_convergence([TracePoint(0.0, 9.0, 1.0), TracePoint(5.0, 5.0, 4.0)], title="Run", ax=ax)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "draw", [draw_gantt, draw_utilisation, draw_jct, draw_gaps, draw_convergence]
)
def test_every_figure_at_three_sizes(draw, size: tuple[float, float], tmp_path: Path):
    """Drawn on the given axes, with labels inside the picture, and warnings are errors here."""
    figure = new_figure(*size)
    ax = figure.add_subplot()
    draw(ax)
    png, svg = save_figure(figure, tmp_path / "figure", dpi=80)
    assert png.read_bytes().startswith(b"\x89PNG")
    pixels = int.from_bytes(png.read_bytes()[16:20], "big")
    assert pixels == pytest.approx(size[0] * 80, abs=1)
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")
    assert ax.get_xlabel()
    assert "(" in ax.get_xlabel()
    box = figure.bbox
    low, high = sorted(ax.get_ylim())
    ticks = [
        label
        for place, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        if low <= place <= high
    ]
    for text in (ax.xaxis.label, ax.yaxis.label, *ticks):
        extent = text.get_window_extent()
        assert extent.x0 >= box.x0 - 1
        assert extent.y0 >= box.y0 - 1


def test_drawing_on_given_axes_makes_no_figure_of_its_own(instance: Instance, schedule: Schedule):
    """A server that draws a thousand reports must not collect a thousand figures."""
    from matplotlib import pyplot

    ax = new_figure(6, 4).add_subplot()
    assert plot_gantt(instance, schedule, ax=ax) is ax
    assert pyplot.get_fignums() == []


def test_svg_is_the_same_text_each_time(instance: Instance, schedule: Schedule):
    """Reports under version control change only when their content does."""

    def draw() -> str:
        figure = new_figure(6, 4)
        plot_gantt(instance, schedule, ax=figure.add_subplot())
        return svg_text(figure)

    assert draw() == draw()


def test_inline_svg_is_part_of_the_page(instance: Instance, schedule: Schedule):
    """No name spaces, no other document, ids of its own, the page's text colour, words for all."""
    figure = new_figure(6, 4)
    plot_gantt(instance, schedule, ax=figure.add_subplot())
    text = inline_svg(figure, "fig1", "Bars & <lines>")
    root = ElementTree.fromstring(text)
    assert "http" not in text
    assert INK.lower() not in text.lower()
    assert "currentColor" in text
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "fig1-title"
    assert root.find("title").text == "Bars & <lines>"
    assert root.get("width") is None
    assert root.get("viewBox")
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    assert all(found.startswith("fig1-") for found in ids)
    used = {e.get("href")[1:] for e in root.iter() if e.get("href")}
    assert used <= set(ids)


def test_unknown_formats_and_full_folders_are_explained(tmp_path: Path):
    figure = new_figure(2, 2)
    with pytest.raises(InstanceError, match=r'save a figure as "pfd"; the formats are png, svg'):
        save_figure(figure, tmp_path / "figure", ("pfd",))
    (tmp_path / "file").write_text("")
    with pytest.raises(AllocError, match=r"figure.png: cannot be written .*choose another place"):
        save_figure(figure, tmp_path / "file" / "figure")


def seen_by(colour: str, kind: str) -> np.ndarray:
    """A colour as seen with red or green cones missing (Viénot, Brettel and Mollon, 1999)."""
    rgb = np.array(mpl.colors.to_rgb(colour)) ** 2.2
    to_lms = np.array(
        [[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]]
    )
    loss = {
        "protan": [[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]],
        "deutan": [[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]],
    }[kind]
    lms = np.array(loss) @ to_lms @ rgb
    return np.clip(np.linalg.inv(to_lms) @ lms, 0, 1) ** (1 / 2.2)


@pytest.mark.parametrize("kind", ["protan", "deutan"])
def test_colours_stay_apart_for_colour_blind_readers(kind: str):
    """Any two series differ visibly with red or green cones missing."""
    seen = [seen_by(colour, kind) for colour in OKABE_ITO.values()]
    closest = min(np.abs(a - b).max() for a, b in itertools.combinations(seen, 2))
    assert closest > 0.09


def test_styles_are_distinct_for_many_schedulers():
    styles = line_styles(["optimum", *(f"s{k}" for k in range(18))])
    assert len({(s.color, s.dash) for s in styles.values()}) == 19
    assert styles["optimum"].color == INK
