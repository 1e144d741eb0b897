"""DL2's networks: the shape, the odd batch norm, and that numpy says what PyTorch says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.learning.dl2.networks import DenseForward, DenseNetwork, ScaleShift  # noqa: E402


def network(hidden: tuple[int, ...] = (9, 7), *, scale_shift: bool = True) -> DenseNetwork:
    generator = torch.Generator()
    generator.manual_seed(3)
    return DenseNetwork((6, 5), hidden, 16, scale_shift=scale_shift, generator=generator)


def trained(net: DenseNetwork) -> DenseNetwork:
    """Return the network with weights as large as training makes them."""
    generator = torch.Generator()
    generator.manual_seed(4)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return net


@pytest.mark.parametrize("scale_shift", [True, False])
@pytest.mark.parametrize("hidden", [(9,), (9, 7), (30, 30, 30)])
def test_the_fast_network_says_what_the_trained_one_says(
    hidden: tuple[int, ...], scale_shift: bool
) -> None:
    """Decisions are made by one and learned by the other: one observation or many."""
    net = trained(network(hidden, scale_shift=scale_shift))
    seen = np.random.default_rng(0).normal(size=(11, 6, 5)).astype(np.float32)
    with torch.no_grad():
        wanted = net(torch.from_numpy(seen)).numpy()
    forward = DenseForward(net)
    flat = seen.reshape(11, -1)
    # Single precision: what terms of hundreds leave after they cancel is as exact as they are.
    rounding = 1e-6 * float(np.abs(wanted).max())
    np.testing.assert_allclose(forward(flat), wanted, rtol=1e-5, atol=rounding)
    np.testing.assert_allclose(forward(flat[0]), wanted[0], rtol=1e-5, atol=rounding)
    # Observations are given in place: they must not be changed.
    before = flat.copy()
    forward(flat)
    np.testing.assert_array_equal(flat, before)


def test_scale_and_shift_are_batch_norm_that_never_saw_a_batch() -> None:
    """What the released code's layer amounts to: initial mean 0 and variance 1 for ever."""
    layer, norm = ScaleShift(5), torch.nn.BatchNorm1d(5)
    with torch.no_grad():
        layer.scale.copy_(torch.arange(5.0))
        layer.shift.copy_(torch.arange(5.0) - 2)
        norm.weight.copy_(layer.scale)
        norm.bias.copy_(layer.shift)
    norm.eval()
    x = torch.randn(3, 5)
    torch.testing.assert_close(layer(x), norm(x))


def test_weights_begin_as_in_the_released_code() -> None:
    """Normal with deviation 0.02, cut off at two; no biases; scales near 1. The seed draws them."""
    net: Any = network((200, 200))
    first = net.layers[1].weight.detach().numpy()
    assert np.abs(first).max() <= 0.04
    # The cut-off narrows a normal by a factor of 0.88.
    assert first.std() == pytest.approx(0.88 * 0.02, rel=0.03)
    assert not net.layers[1].bias.any()
    assert net.layers[3].scale.detach().numpy() == pytest.approx(1.0, abs=0.02)
    again = network((200, 200))
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
