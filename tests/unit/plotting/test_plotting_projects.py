"""The pictures of pipelines and projects."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.instances.projects import generate_dags
from alloc.plotting import (
    new_figure,
    plot_pipeline,
    plot_project,
)
from alloc.plotting.axes import time_unit
from alloc.problems.pipeline.problem import Device, Layer, PipelinePlan, PipelineProblem
from alloc.problems.pipeline.timetable import timetable
from alloc.solving.project.rules import schedule_by_rule

SIZES = ((3.5, 2.5), (7.0, 4.0), (12.0, 8.0))


@pytest.mark.parametrize("size", SIZES)
def test_a_pipeline_s_bars_are_its_passes(size):
    problem = PipelineProblem("row", (Layer(1.0, 2.0),) * 3, (Device(),) * 3, 4)
    plan = PipelinePlan((0, 1, 2))
    ax = plot_pipeline(problem, plan, title="1F1B", ax=new_figure(*size).subplots())
    step = timetable(problem, plan)
    for name, forward in (("forward", True), ("backward", False)):
        (bars,) = [found for found in ax.collections if found.get_gid() == name]
        drawn = {tuple(np.round(path.get_extents().intervalx, 9)) for path in bars.get_paths()}
        assert drawn == {
            (timed.start_s, timed.end_s)
            for timed in step.passes
            if timed.step.is_forward == forward
        }
    assert ax.get_xlim() == (0.0, step.step_s)
    assert [label.get_text() for label in ax.texts].count("3") == 2 * 3


@pytest.mark.parametrize("size", SIZES)
def test_a_project_s_bars_are_its_runs_by_job(size):
    problem = generate_dags(num_jobs=3, num_gpus=4, seed=2)
    plan = schedule_by_rule(problem, "critical-path")
    ax = plot_project(problem, plan, title="Stages", ax=new_figure(*size).subplots())
    second = time_unit(max(plan.ends_s(problem).values())).seconds
    drawn = sorted(bar.get_x() * second for bars in ax.containers for bar in bars)
    assert drawn == pytest.approx(sorted(run.start_s for run in plan.runs))
    assert [bars.get_label() for bars in ax.containers] == ["job-0", "job-1", "job-2"]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(labels) == sorted(a.id for a in problem.activities)
