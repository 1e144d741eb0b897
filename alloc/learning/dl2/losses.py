"""DL2's losses: imitation, and the policy gradient that its code takes."""

from __future__ import annotations

from alloc.learning.pytorch import functional, torch

ENTROPY_EPSILON = 1e-6
"""What the released code adds to a probability before it takes the logarithm."""
_LEAST = 1e-10
"""Probabilities are kept this far from 0 and 1 in the cross entropy, as the released code's are."""


def imitation_loss(logits: torch.Tensor, labels: torch.Tensor, kind: str) -> torch.Tensor:
    """Return the mean loss of a batch against a teacher's grants.

    Parameters
    ----------
    logits
        Shape (batch, actions); nothing is masked in this phase.
    labels
        1 for the action of the teacher, shape (batch, actions); a row of 0 for a grant to a job
        that the window does not show.
    kind
        ``cross-entropy``, ``mean-square`` or ``absolute``.
    """
    chances = functional.softmax(logits, dim=1)
    if kind == "cross-entropy":
        logs = chances.clamp(_LEAST, 1.0 - _LEAST).log()
        return -(labels * logs).sum(dim=1).mean()
    gap = chances - labels
    return gap.square().mean() if kind == "mean-square" else gap.abs().mean()


def mean_entropy(chances: torch.Tensor) -> float:
    """Return the mean entropy of distributions, nats, shape (batch, actions)."""
    return -(chances * (chances + ENTROPY_EPSILON).log()).sum(dim=1).mean().item()


def stored_policy_gradient(
    stored: torch.Tensor,
    actions: torch.Tensor,
    advantages: torch.Tensor,
    entropy_weight: float,
) -> torch.Tensor:
    """Return the gradient by the logits that DL2's released code takes, shape (batch, actions).

    The loss is ``mean(-A log p(a)) + weight * mean(p log(p + 1e-6))``. The code feeds the
    probabilities stored with the sample, masked and renormalised, in place of its softmax: so both
    values and derivatives are taken at those, whatever the network says by now. There is no
    importance ratio, and masked actions get no gradient.

    Parameters
    ----------
    stored
        Probabilities at the time of the sample, 0 where masked, shape (batch, actions).
    actions, advantages
        Numbers of the actions taken, and their advantages, shape (batch,).
    entropy_weight
        Weight of the term of the entropy, which is averaged over the batch; for the released code
        divided by the number of actions.
    """
    batch = len(stored)
    chosen = functional.one_hot(actions, stored.shape[1]).to(stored.dtype)
    gradient = advantages[:, None] * (stored - chosen)
    slope = (stored + ENTROPY_EPSILON).log() + stored / (stored + ENTROPY_EPSILON)
    gradient += entropy_weight * stored * (slope - (stored * slope).sum(dim=1, keepdim=True))
    return gradient / batch


def policy_loss(
    logits: torch.Tensor,
    allowed: torch.Tensor,
    actions: torch.Tensor,
    advantages: torch.Tensor,
    entropy_weight: float,
) -> torch.Tensor:
    """Return the same loss at the probabilities of the network as it now is.

    Parameters
    ----------
    logits
        Of the network as it is, shape (batch, actions).
    allowed
        Which actions were allowed, shape (batch, actions).
    actions, advantages, entropy_weight
        As in `stored_policy_gradient`.
    """
    logs = functional.log_softmax(logits.masked_fill(~allowed, -torch.inf), dim=1)
    taken = logs.gather(1, actions[:, None]).squeeze(1)
    chances = logs.exp()
    entropy = (chances * (chances + ENTROPY_EPSILON).log()).sum(dim=1)
    return -(advantages * taken).mean() + entropy_weight * entropy.mean()
