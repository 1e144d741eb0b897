"""Small networks: a score for each row, or for each of a fixed number of actions."""

from __future__ import annotations

from typing import cast

from alloc.learning.pytorch import Tensor, nn, torch
from alloc.schedulers.learned.feature_spec import FeatureSpec

WIDTH = 64


class FlatNetwork(nn.Module):
    """Outputs of a vector of features, shape (batch, features) to (batch, outputs)."""

    def __init__(self, features: int, outputs: int, width: int = WIDTH) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.answer = nn.Linear(width, outputs)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the outputs."""
        return cast(Tensor, self.answer(self.body(seen)))


class RowNetwork(nn.Module):
    """A score for each row that knows the mean of all, (batch, rows, features) to (batch, rows).

    Rows are treated alike, so their order does not matter.
    """

    def __init__(self, features: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, width), nn.Tanh())
        self.own = nn.Linear(width, width)
        self.common = nn.Linear(width, width)
        self.answer = nn.Linear(width, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the scores."""
        rows = self.embed(seen)
        mixed = torch.tanh(self.own(rows) + self.common(rows.mean(1, keepdim=True)))
        return cast(Tensor, self.answer(mixed)[:, :, 0])


class RowValue(nn.Module):
    """One value of all rows, (batch, rows, features) to (batch, 1)."""

    def __init__(self, features: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, width), nn.Tanh())
        self.answer = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, seen: Tensor) -> Tensor:
        """Return the values."""
        return cast(Tensor, self.answer(self.embed(seen).mean(1)))


def make_networks(spec: FeatureSpec, seed: int) -> tuple[nn.Module, nn.Module]:
    """Return actor and critic for a spec; equal seeds give equal weights."""
    shape, actions = spec.inputs[0].shape, spec.outputs[0].shape[-1]
    features = int(shape[-1])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        actor: FlatNetwork | RowNetwork
        critic: nn.Module
        if len(shape) == 2:
            actor, critic = FlatNetwork(features, int(actions)), FlatNetwork(features, 1)
        else:
            actor, critic = RowNetwork(features), RowValue(features)
        # All actions nearly alike at first, so that all are tried.
        with torch.no_grad():
            actor.answer.weight.mul_(0.01)
            actor.answer.bias.zero_()
        return actor, critic
