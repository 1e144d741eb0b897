"""The loss of imitation: how likely the optimal choice is under a policy's scores and prices."""

from __future__ import annotations

from alloc.learning.imitation.network import SetPolicy
from alloc.learning.imitation.rounds import Batch
from alloc.learning.pytorch import Tensor, torch

TEMPERATURE = 0.25
"""Slots by which a score must exceed another for its column to be e times as likely."""
PRICE_WEIGHT = 0.3
"""Weight of the error in the prices beside that in the choices."""
_UNAFFORDABLE = -1e6


def imitation_loss(network: SetPolicy, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss, and the share of jobs whose likeliest choice is the optimal one.

    Every job chooses among its columns and nothing by a softmax of the scores under the network's
    own prices; the loss is the cross entropy to the optimal choice, which may be a mixture (the
    linear optimum splits a few jobs), plus the squared error of the logarithm of prices.
    """
    worth, per_job = network.answer(batch.jobs, batch.resources, batch.absent)
    here = ~batch.absent
    prices = per_job * here.sum(dim=1, keepdim=True)
    score = (batch.terms * worth.unsqueeze(-2)).sum(dim=-1)
    net = score - (batch.share * prices[:, None, None, :]).sum(dim=-1)
    net = torch.where(batch.share[..., 0] > 1e8, torch.full_like(net, _UNAFFORDABLE), net)
    logits = torch.cat([net, torch.zeros_like(net[..., :1])], dim=-1) / TEMPERATURE
    chances = torch.log_softmax(logits, dim=-1)
    count = here.sum()
    choice = -(batch.choice * chances).sum() / count
    error = (torch.log1p(prices) - torch.log1p(batch.prices)).square()
    # A resource that nobody asks for has no price to learn.
    asked = (batch.resources[..., 3] > 0).float()
    price = (error * asked).sum() / asked.sum().clamp(min=1.0)
    hits = (logits.argmax(dim=-1) == batch.choice.argmax(dim=-1)) & here
    return choice + PRICE_WEIGHT * price, hits.sum() / count
