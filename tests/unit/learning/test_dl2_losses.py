"""DL2's losses: by hand, and the gradient of the released code held to PyTorch's."""

from __future__ import annotations

import math

import pytest
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.learning.dl2.losses import (  # noqa: E402
    imitation_loss,
    mean_entropy,
    policy_loss,
    stored_policy_gradient,
)

ACTIONS = torch.tensor([2, 0, 3])
ADVANTAGES = torch.tensor([1.5, -0.5, 0.25])


def logits() -> torch.Tensor:
    generator = torch.Generator()
    generator.manual_seed(0)
    return torch.randn(3, 5, generator=generator).requires_grad_()


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_on_fresh_samples_the_stored_gradient_is_the_policy_gradient(weight: float) -> None:
    """Where the stored probabilities are the network's own, both gradients must agree."""
    scores = logits()
    loss = policy_loss(scores, torch.ones(3, 5, dtype=torch.bool), ACTIONS, ADVANTAGES, weight)
    loss.backward()
    stored = torch.softmax(scores.detach(), dim=1)
    found = stored_policy_gradient(stored, ACTIONS, ADVANTAGES, weight)
    assert scores.grad is not None
    torch.testing.assert_close(found, scores.grad, rtol=1e-4, atol=1e-6)


def test_the_stored_gradient_does_not_look_at_the_network() -> None:
    """The released code's artefact: without entropy it is A (p_old - onehot) / batch."""
    stored = torch.tensor([[0.7, 0.3, 0.0]])
    found = stored_policy_gradient(stored, torch.tensor([1]), torch.tensor([2.0]), 0.0)
    torch.testing.assert_close(found, torch.tensor([[1.4, -1.4, 0.0]]))


def test_masked_actions_get_no_gradient() -> None:
    """A masked action must be neither praised nor blamed, entropy included."""
    allowed = torch.tensor([[True, True, False, True, True]]).repeat(3, 1)
    scores = logits()
    actions = torch.tensor([1, 0, 3])
    policy_loss(scores, allowed, actions, ADVANTAGES, 0.1).backward()
    stored = torch.softmax(scores.detach().masked_fill(~allowed, -torch.inf), dim=1)
    found = stored_policy_gradient(stored, actions, ADVANTAGES, 0.1)
    assert scores.grad is not None
    assert not scores.grad[:, 2].any()
    assert not found[:, 2].any()
    torch.testing.assert_close(found, scores.grad, rtol=1e-4, atol=1e-6)


def test_entropy_pulls_towards_even_probabilities() -> None:
    """Descending must raise the small probability: the sign is easily wrong."""
    stored = torch.tensor([[0.9, 0.1]])
    found = stored_policy_gradient(stored, torch.tensor([0]), torch.zeros(1), 1.0)
    assert found[0, 0] > 0 > found[0, 1]
    assert mean_entropy(torch.full((2, 4), 0.25)) == pytest.approx(math.log(4), abs=1e-4)


def test_imitation_losses_by_hand() -> None:
    """Even logits over 4 actions: cross entropy log 4; a grant out of view counts nothing."""
    even = torch.zeros(2, 4)
    labels = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert imitation_loss(even, labels, "cross-entropy").item() == pytest.approx(math.log(4) / 2)
    squares = (3 * 0.25**2 + 0.75**2 + 4 * 0.25**2) / 8
    assert imitation_loss(even, labels, "mean-square").item() == pytest.approx(squares)
    assert imitation_loss(even, labels, "absolute").item() == pytest.approx((6 * 0.25 + 1) / 8)
    # Whatever the logits, the loss stays finite.
    extreme = torch.tensor([[1e4, -1e4, 0.0, 0.0]])
    assert math.isfinite(imitation_loss(extreme, labels[:1], "cross-entropy").item())
