"""Evolution strategies: reinforcement learning by trying small changes of the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from alloc.learning.pytorch import nn, torch

Array = npt.NDArray[np.float64]


def get_weights(parameters: Sequence[nn.Parameter]) -> Array:
    """Return parameters as one vector."""
    flat = [parameter.detach().double().reshape(-1) for parameter in parameters]
    return np.asarray(torch.cat(flat).numpy().copy())


def set_weights(parameters: Sequence[nn.Parameter], weights: Array) -> None:
    """Set parameters from one vector.

    Parameters
    ----------
    parameters
        The parameters, in the order of `get_weights`.
    weights
        All their elements, shape (elements,).
    """
    at = 0
    with torch.no_grad():
        for parameter in parameters:
            size = parameter.numel()
            part = torch.from_numpy(weights[at : at + size]).reshape(parameter.shape)
            parameter.copy_(part.to(parameter.dtype))
            at += size


def estimate_gradient(
    costs: Callable[[Array], Array],
    weights: Array,
    *,
    pairs: int,
    spread: float,
    rng: np.random.Generator,
) -> tuple[Array, float]:
    """Return the gradient of a smoothed cost, and the mean cost that was seen.

    Weights are moved by normal noise and by its opposite (antithetic pairs); the gradient is the
    mean of the noise times half the difference in cost, where every instance counts by how far its
    differences spread, so that no family of instances drowns the others.

    Parameters
    ----------
    costs
        Costs of several weights, shape (n, weights), on each of the same instances, shape
        (n, instances).
    weights
        Where to estimate.
    pairs, spread
        Pairs of noise, and its standard deviation.
    rng
        Draws it.

    References
    ----------
    Salimans et al., "Evolution Strategies as a Scalable Alternative to Reinforcement Learning",
    2017, algorithm 1 with mirrored sampling (section 2.1).
    """
    noise = rng.standard_normal((pairs, len(weights)))
    above, below = np.split(costs(weights + spread * np.concatenate([noise, -noise])), 2)
    half = (above - below) / 2
    scale = np.sqrt((half**2).mean(axis=0, keepdims=True))
    standing = (half / np.maximum(scale, 1e-12)).mean(axis=1)
    gradient = standing @ noise / (pairs * spread)
    return gradient, float((above.mean() + below.mean()) / 2)


class Adam:
    """Adam on one vector, with a state that is plain to keep.

    References
    ----------
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 1.
    """

    def __init__(self, size: int, rate: float) -> None:
        self.rate = rate
        self.mean = np.zeros(size)
        self.square = np.zeros(size)
        self.count = 0

    def step(self, weights: Array, gradient: Array) -> Array:
        """Return the weights after a step against the gradient.

        Parameters
        ----------
        weights
            The weights, shape (elements,).
        gradient
            How the cost grows with each, shape (elements,).
        """
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.99 * self.square + 0.01 * gradient**2
        mean = self.mean / (1 - 0.9**self.count)
        square = self.square / (1 - 0.99**self.count)
        return weights - self.rate * mean / (np.sqrt(square) + 1e-8)

    def state(self) -> dict[str, object]:
        """Return what the next step depends on."""
        return {
            "mean": torch.from_numpy(self.mean.copy()),
            "square": torch.from_numpy(self.square.copy()),
            "count": self.count,
        }

    def restore(self, state: dict[str, object]) -> None:
        """Take up a state."""
        mean, square, count = state["mean"], state["square"], state["count"]
        assert isinstance(mean, torch.Tensor)
        assert isinstance(square, torch.Tensor)
        assert isinstance(count, int)
        self.mean, self.square, self.count = mean.numpy().copy(), square.numpy().copy(), count
