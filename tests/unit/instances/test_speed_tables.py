"""Speed tables: the formula where it is promised, plateaus, dips and gaps where they are."""

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.instances.dl2 import JOB_TYPES
from alloc.instances.speed_tables import SHAPES, Demand, configurations, speed_table

FIT = JOB_TYPES["inception-bn"].fit


def make(shape, max_ps=16, max_workers=16, seed=0):
    return speed_table(FIT, max_ps, max_workers, shape, np.random.default_rng(seed))


def test_fit_is_the_formula_at_every_point_to_six_digits():
    """Jobs of the smooth tables must run at the published fit."""
    table = make("fit", 3, 4)
    assert set(table) == {(u, w) for u in (1, 2, 3) for w in (1, 2, 3, 4)}
    for (u, w), speed in table.items():
        assert speed == pytest.approx(FIT.speed(u, w), rel=5e-6)
        assert speed == float(f"{speed:.6g}")


@pytest.mark.parametrize("shape", SHAPES)
def test_the_smallest_configuration_is_always_there(shape):
    """Without it a job might not fit a cluster that is nearly full."""
    for seed in range(20):
        assert make(shape, 4, 4, seed)[1, 1] > 0


def test_coarse_tables_hold_the_odd_counts():
    """DL2 measured six models on the odd grid."""
    assert set(make("coarse", 5, 4)) == {(u, w) for u in (1, 3, 5) for w in (1, 3)}


def test_on_a_plateau_one_task_more_brings_nothing():
    """Ties must occur: pruning and symmetry rules are wrong exactly there."""
    table = make("plateaus", 4, 4)
    assert table[2, 3] == table[1, 3] == table[2, 4]
    assert table[3, 1] == pytest.approx(FIT.speed(3, 1), rel=5e-6)


def test_dips_make_more_tasks_slower_in_places():
    """A table with dips is neither monotone nor above the formula anywhere."""
    table = make("dips")
    ratios = np.array([speed / FIT.speed(u, w) for (u, w), speed in table.items()])
    dipped = ratios < 0.99
    assert len(table) == 256
    assert 0.05 < dipped.mean() < 0.25
    assert ratios.max() < 1 + 1e-5
    assert ratios.min() >= 0.4 - 1e-5


def test_gaps_miss_points_and_keep_failed_ones():
    """Real tables have holes, and zeros that must not be divided by."""
    table = make("gaps")
    assert 256 * 0.6 < len(table) < 256 * 0.9
    assert 0.0 in table.values()


def test_rough_tables_are_all_of_it():
    """Missing points, dips below the formula, and zeros in one table."""
    table = make("rough")
    assert len(table) < 256
    assert 0.0 in table.values()
    assert any(0 < speed < 0.9 * FIT.speed(u - 1 + u % 2, w - 1 + w % 2)
               for (u, w), speed in table.items())  # fmt: skip


def test_configurations_ask_for_dl2s_resources():
    """A GPU worker takes one GPU and two cores, a server two cores."""
    (configuration,) = configurations(JOB_TYPES["wlm"], {(3, 2): 7.0})
    assert configuration.label == "2 worker + 3 ps"
    assert configuration.demand == (2000, 10000, 0)
    assert configuration.rate == 7.0


def test_models_without_gpu_never_ask_for_one():
    """Also where workers of other models take two."""
    (configuration,) = configurations(JOB_TYPES["dssm"], {(1, 1): 7.0}, Demand(2, 4000))
    assert configuration.demand == (0, 8000, 0)


def test_unknown_shape_suggests_the_nearest():
    """The sentence must name the cure."""
    with pytest.raises(InstanceError, match=r'speed table "dip"; did you mean "dips"\?'):
        make("dip")


def test_an_empty_grid_is_refused():
    """No workers, no job."""
    with pytest.raises(InstanceError, match=r"max_workers is 0; it must be 1 or more"):
        make("fit", 2, 0)
