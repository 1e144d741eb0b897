"""The network of ``job-set/1``: attention over the set of jobs, linear in their number."""

from __future__ import annotations

from alloc.learning.pytorch import Tensor, nn, torch
from alloc.schedulers.learned.job_set_choice import TERMS
from alloc.schedulers.learned.job_set_features import JOB_FEATURES, RESOURCE_FEATURES

WIDTH, QUERIES, DEPTH = 48, 4, 16
"""Width of the layers of jobs and of the context; learned queries, and what each gathers."""
LARGEST = 8.0
"""Largest logarithm of a worth or a price: one job is worth at most 3,000 slots."""


class SetPolicy(nn.Module):
    """Weigh jobs and price resources, whatever their number and order.

    Every job is embedded on its own. A few learned queries attend over all jobs, and what they
    find, with the resources, is the context: so far the pooling by multihead attention of the Set
    Transformer, with as many inducing points as queries. The context is told to every job again,
    which is weighed, and to every resource, which is priced. Permuting the jobs permutes their
    worth and changes nothing else; the cost is linear in the number of jobs.

    References
    ----------
    Zaheer et al., "Deep Sets", NeurIPS 2017, theorem 2. Lee et al., "Set Transformer", ICML 2019,
    equations 9 and 11.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        width, queries, depth = WIDTH, QUERIES, DEPTH
        features, resources, price = len(JOB_FEATURES), len(RESOURCE_FEATURES), width // 2
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.embed = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.ask = nn.Linear(width, queries)
        self.gather = nn.Linear(width, depth)
        self.resource = nn.Sequential(nn.Linear(resources, price), nn.ReLU())
        self.context = nn.Sequential(nn.Linear(queries * depth + price, width), nn.ReLU())
        self.mix = nn.Linear(width, width)
        self.tell_jobs = nn.Linear(width, width)
        self.worth = nn.Linear(width, TERMS)
        self.mix_price = nn.Linear(price, price)
        self.tell_prices = nn.Linear(width, price)
        self.price = nn.Linear(price, 1)
        with torch.no_grad():
            # At first: progress and early completion count alike, the rest hardly.
            self.worth.bias.copy_(torch.tensor([0.0, 0.0, -3.0]))
            self.worth.weight.mul_(0.1)

    def forward(self, jobs: Tensor, resources: Tensor) -> tuple[Tensor, Tensor]:
        """Return the worth of jobs and the prices of resources.

        From their features, shape (jobs, features) and (resources, features), come alpha, beta,
        gamma of each job, shape (jobs, 3), and the price per job of each resource of the whole
        cluster.

        Parameters
        ----------
        jobs, resources
            Features as `alloc.schedulers.learned.job_set_features` states them, one row each.
        """
        return self.answer(jobs, resources, None)

    def answer(
        self, jobs: Tensor, resources: Tensor, absent: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return what `forward` does, for rounds in a batch too.

        Parameters
        ----------
        jobs, resources
            As of `forward`; any axes may stand in front.
        absent
            Whether a row only fills the batch, shape (..., jobs); None: none does.
        """
        seen = self.embed((jobs - self.centre) * self.scale)
        asked = self.ask(seen)
        if absent is not None:
            asked = asked.masked_fill(absent.unsqueeze(-1), -1e9)
        found = torch.softmax(asked, dim=-2).transpose(-1, -2) @ self.gather(seen)
        supply = self.resource(resources)
        context = self.context(torch.cat([found.flatten(-2), supply.mean(dim=-2)], dim=-1))
        told = torch.relu(self.mix(seen) + self.tell_jobs(context).unsqueeze(-2))
        worth = torch.exp(torch.clamp(self.worth(told), -LARGEST, LARGEST))
        dear = torch.relu(self.mix_price(supply) + self.tell_prices(context).unsqueeze(-2))
        prices = torch.exp(torch.clamp(self.price(dear).squeeze(-1), -LARGEST, LARGEST))
        return worth, prices

    def normalise(self, jobs: Tensor) -> None:
        """Centre and scale the features of jobs by a sample of them, shape (samples, features)."""
        centre, spread = jobs.mean(dim=0), jobs.std(dim=0)
        # A feature that never varied in the sample must not blow up when it does.
        self.centre.copy_(centre)
        self.scale.copy_(1.0 / torch.clamp(spread, min=0.25))
