"""The facts and fits of DL2's world, held to numbers worked out by hand."""

import pytest

from alloc.instances.dl2 import JOB_TYPES, SERVER, TASK_CPU_MILLI, SpeedFit


def test_speed_is_the_formula_at_one_worker_and_one_server():
    """1/(a + b + c + d + e): for resnet-50 1/0.0304004 = 32.8943 samples/s."""
    assert JOB_TYPES["resnet-50"].fit.speed(1, 1) == pytest.approx(32.8943, abs=1e-4)


def test_speed_tells_servers_from_workers():
    """Swapping u and w is the likeliest slip; vgg-16 with u=4, w=2 is 1/(.008475+.01816+.012615+
    .008474) = 20.9538, and with u=2, w=4 it is 1/(.0042375+.01816+.05046+.016948) = 11.1352."""
    fit = JOB_TYPES["vgg-16"].fit
    assert fit.speed(num_ps=4, num_workers=2) == pytest.approx(20.9538, abs=1e-4)
    assert fit.speed(num_ps=2, num_workers=4) == pytest.approx(11.1352, abs=1e-4)


def test_every_coefficient_counts():
    """Each of the five terms has its own place in the formula."""
    assert SpeedFit(8, 0, 0, 0, 0).speed(2, 4) == 0.5
    assert SpeedFit(0, 2, 0, 0, 0).speed(2, 4) == 0.5
    assert SpeedFit(0, 0, 2, 0, 0).speed(2, 4) == 0.25
    assert SpeedFit(0, 0, 0, 1, 0).speed(2, 4) == 0.25
    assert SpeedFit(0, 0, 0, 0, 1).speed(2, 4) == 0.5


def test_heavier_models_only_compute_more():
    """`with_compute` must leave the communication alone: a/w doubles, nothing else."""
    assert SpeedFit(1, 2, 3, 4, 5).with_compute(2) == SpeedFit(2, 2, 3, 4, 5)


@pytest.mark.parametrize("model", JOB_TYPES)
def test_servers_help_and_too_many_workers_hurt(model):
    """What makes DL2's world hard: equal pairs are far from best for most models."""
    speed = JOB_TYPES[model].fit.speed
    assert speed(2, 1) >= speed(1, 1) * 0.99
    best = max((speed(u, w), -w) for u in range(1, 17) for w in range(1, 17))
    if model != "dssm":  # its fit has nearly no cost per worker
        assert -best[1] < 16


def test_a_server_holds_four_tasks_two_of_them_on_gpus():
    """The counts on which the aggregate capacity rows of DL2's cluster rest."""
    assert SERVER.cpu_milli // TASK_CPU_MILLI == 4
    assert SERVER.num_gpus == 2


def test_only_two_of_the_eight_models_use_no_gpu():
    """A slip in the table would shift the load of every stored instance."""
    without = {model for model, job_type in JOB_TYPES.items() if not job_type.uses_gpu}
    assert len(JOB_TYPES) == 8
    assert without == {"cnn-text-classification", "dssm"}
