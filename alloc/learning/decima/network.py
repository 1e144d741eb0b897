"""The network of ``stage-graph/1``: messages up the graph of each job, then a score of each way."""

from __future__ import annotations

from typing import cast

from alloc.learning.pytorch import Tensor, nn, torch
from alloc.schedulers.learned.stage_graph_features import (
    JOB_FEATURES,
    STAGE_FEATURES,
    WAY_FEATURES,
)

WIDTH = 16
"""Width of the vectors of stages, jobs and the whole; Decima's are 8 wide, and told less."""
HIDDEN = 32
"""Width of the hidden layer that scores a way."""
ROUNDS = 8
"""Messages are passed so many times: each stage hears of those up to so many stages behind it, of
longer graphs the end is heard of less. Decima's queries have up to some dozen levels, ours up to
eight."""


class GraphNetwork(nn.Module):
    """Score every way to start a stage, whatever the number of jobs and the shape of their graphs.

    A stage hears of the stages that wait for it, these of those behind them, and so on: its vector
    is its own plus ``g(sum of f(vectors of those that wait for it))``. The vectors of its stages
    make that of a job, and those of the jobs that of the whole. A way is scored by its own features
    and the vectors of its stage, of the job and of the whole. What is not there, in a batch, is in
    no sum.

    References
    ----------
    Mao et al., SIGCOMM 2019, section 5.1, equation 1 and figure 5.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(len(STAGE_FEATURES), WIDTH), nn.Tanh())
        self.say = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.hear = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.job = nn.Sequential(nn.Linear(WIDTH + len(JOB_FEATURES), WIDTH), nn.Tanh())
        self.whole = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.answer = nn.Sequential(
            nn.Linear(3 * WIDTH + len(JOB_FEATURES) + len(WAY_FEATURES), HIDDEN),
            nn.Tanh(),
            nn.Linear(HIDDEN, 1),
        )
        with torch.no_grad():
            # All ways nearly alike at first, so that all are tried.
            last = cast(nn.Linear, self.answer[2])
            last.weight.mul_(0.1)
            last.bias.zero_()

    def forward(
        self,
        stages: Tensor,
        follows: Tensor,
        jobs: Tensor,
        stages_of: Tensor,
        ways: Tensor,
        stage_of: Tensor,
    ) -> Tensor:
        """Return the scores of the ways, shape (ways,).

        From what `alloc.schedulers.learned.stage_graph_features` states. Any axes may stand in
        front of all.

        Parameters
        ----------
        stages, jobs, ways
            Features, shape (stages, features), (jobs, features) and (ways, features).
        follows
            1 where the stage of a column waits for that of a row, else 0, shape (stages, stages).
        stages_of
            1 where a stage is of a job, else 0, shape (jobs, stages).
        stage_of
            1 where a way starts a stage, else 0, shape (ways, stages).
        """
        own = self.embed(stages)
        seen = own
        for _ in range(ROUNDS):
            seen = own + self.hear(follows @ self.say(seen))
        count = stages_of.sum(dim=-1, keepdim=True)
        told = torch.cat([stages_of @ seen / torch.clamp(count, min=1.0), jobs], dim=-1)
        # A job without stages only fills a batch.
        job = self.job(told) * torch.clamp(count, 0.0, 1.0)
        there = torch.clamp(torch.clamp(count, 0.0, 1.0).sum(dim=-2, keepdim=True), min=1.0)
        whole = self.whole(job.sum(dim=-2, keepdim=True) / there)
        of_stage = torch.cat([seen, stages_of.transpose(-1, -2) @ torch.cat([job, jobs], -1)], -1)
        about = stage_of @ of_stage
        everywhere = torch.zeros_like(about[..., :WIDTH]) + whole
        return cast(Tensor, self.answer(torch.cat([about, everywhere, ways], -1)).squeeze(-1))
