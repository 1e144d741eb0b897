"""Evolution strategies on functions whose minimum is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from needs import need_torch

pytestmark = need_torch()

from torch import nn  # noqa: E402

from alloc.learning.imitation.evolution import (  # noqa: E402
    Adam,
    estimate_gradient,
    get_weights,
    set_weights,
)


def of_each(cost: Callable[..., np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda candidates: np.array([cost(weights) for weights in candidates])


def test_the_gradient_of_a_slope_points_up_it() -> None:
    """On a linear cost the estimate is the slope, up to the scale that instances are given."""
    slope = np.array([3.0, -4.0])

    def cost(weights: np.ndarray) -> np.ndarray:
        return np.array([weights @ slope, 100 * weights @ slope])

    rng = np.random.default_rng(0)
    gradient, seen = estimate_gradient(of_each(cost), np.ones(2), pairs=4000, spread=0.1, rng=rng)
    cosine = gradient @ slope / np.linalg.norm(gradient) / np.linalg.norm(slope)
    assert cosine > 0.99
    assert np.isclose(seen, (-1 - 100) / 2)


def test_no_instance_drowns_the_others() -> None:
    """Scaling one instance's cost a thousandfold changes nothing."""
    one, two = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    gradients = []
    for scale in (1.0, 1000.0):

        def cost(weights: np.ndarray, scale: float = scale) -> np.ndarray:
            return np.array([scale * weights @ one, weights @ two])

        rng = np.random.default_rng(1)
        gradients.append(
            estimate_gradient(of_each(cost), np.zeros(2), pairs=50, spread=0.1, rng=rng)[0]
        )
    assert np.allclose(gradients[0], gradients[1])


def test_descent_finds_the_minimum_and_goes_on_from_its_state() -> None:
    """A bowl; a copy of the optimiser's state continues to the very same weights."""
    target = np.array([1.0, -2.0, 0.5])

    def cost(weights: np.ndarray) -> np.ndarray:
        return np.array([((weights - target) ** 2).sum()])

    def descend(weights: np.ndarray, climber: Adam, steps: range) -> np.ndarray:
        for step in steps:
            rng = np.random.default_rng([7, step])
            gradient, _ = estimate_gradient(of_each(cost), weights, pairs=8, spread=0.05, rng=rng)
            climber.rate = 0.1 * (1 - step / 150)
            weights = climber.step(weights, gradient)
        return weights

    straight = descend(np.zeros(3), Adam(3, 0.1), range(150))
    assert np.abs(straight - target).max() < 0.05
    first = Adam(3, 0.1)
    half = descend(np.zeros(3), first, range(60))
    second = Adam(3, 0.1)
    second.restore(first.state())
    assert np.array_equal(descend(half, second, range(60, 150)), straight)


def test_weights_go_back_where_they_came_from() -> None:
    """All parameters of a layer as one vector."""
    layer = nn.Linear(3, 2)
    parameters = list(layer.parameters())
    weights = get_weights(parameters)
    set_weights(parameters, weights + 1.0)
    assert np.allclose(get_weights(parameters), weights + 1.0)
    assert len(weights) == 8
