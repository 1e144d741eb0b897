"""The set network: permutations, batches, numpy, ONNX - one function, four ways to run it."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import numpy as np
import pytest
from needs import need_torch

from alloc.learning import assert_parity, export_policy
from alloc.schedulers.learned import ModelCard
from alloc.schedulers.learned.kinds import feature_spec

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.instances.learning_worlds import TINY  # noqa: E402
from alloc.learning.imitation.network import SetPolicy  # noqa: E402
from alloc.learning.imitation.rollouts import NumpyNetwork, label_rounds  # noqa: E402
from alloc.learning.imitation.rounds import (  # noqa: E402
    Batch,
    LabelledRound,
    imitation_loss,
)
from alloc.learning.imitation.teachers import RoundTeacher  # noqa: E402


def network(seed: int = 0) -> SetPolicy:
    torch.manual_seed(seed)
    made = SetPolicy()
    made.normalise(torch.randn(100, 17))
    return made.eval()


def inputs(jobs: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(jobs, 17)).astype(np.float32),
        rng.normal(size=(3, 7)).astype(np.float32),
    )


def labelled(count: int = 6) -> list[LabelledRound]:
    rng = np.random.default_rng(0)
    rounds = label_rounds(network(), TINY, 3, RoundTeacher(), rng, rate=1.0, guidance=0.5)
    return rounds[:count]


def test_permuting_jobs_permutes_their_worth_and_no_price() -> None:
    """A set has no order."""
    net = network()
    jobs, resources = inputs(9)
    order = np.random.default_rng(2).permutation(9)
    with torch.no_grad():
        worth, prices = net(torch.from_numpy(jobs), torch.from_numpy(resources))
        again, same = net(torch.from_numpy(jobs[order]), torch.from_numpy(resources))
    assert torch.allclose(worth[torch.from_numpy(order)], again, rtol=1e-5)
    assert torch.allclose(prices, same, rtol=1e-5)


def test_jobs_that_only_fill_a_batch_are_not_seen() -> None:
    """The loss of rounds in one batch is that of each alone, weighed by jobs."""
    net = network()
    rounds = labelled()
    assert len({len(one.jobs) for one in rounds}) > 1, "of different lengths, or nothing is shown"
    with torch.no_grad():
        batch = Batch.of(rounds)
        together, _ = net.answer(batch.jobs, batch.resources, batch.absent)
        for k, one in enumerate(rounds):
            alone, _ = net(torch.from_numpy(one.jobs), torch.from_numpy(one.resources))
            assert torch.allclose(together[k, : len(one.jobs)], alone, rtol=1e-5)


def test_numpy_says_what_pytorch_says() -> None:
    """Rollouts run the network in numpy; they must roll out the network that is trained."""
    net = network(3)
    jobs, resources = inputs(40)
    answer = NumpyNetwork(net)({"jobs": jobs, "resources": resources})
    with torch.no_grad():
        worth, prices = net(torch.from_numpy(jobs), torch.from_numpy(resources))
    assert np.allclose(answer["worth"], worth.numpy(), rtol=1e-4)
    assert np.allclose(answer["prices"], prices.numpy(), rtol=1e-4)
    with torch.no_grad():
        net.worth.bias.add_(1.0)
    louder = NumpyNetwork(net)({"jobs": jobs, "resources": resources})
    assert np.allclose(louder["worth"], math.e * answer["worth"], rtol=1e-4)


def test_onnx_says_what_pytorch_says_for_any_number_of_jobs(tmp_path: Path) -> None:
    """Within 1e-5, from one job to a thousand."""
    net = network(5)
    card = ModelCard(
        name="set",
        title="untrained",
        information="nothing",
        data="none",
        seeds=(5,),
        command="none",
        training_hours=0.0,
        licence="MIT",
        date=datetime.date(2026, 1, 1),
        alloc_version="0.1.0",
    )
    policy = export_policy(net, feature_spec("job-set/1"), card, tmp_path / "set.onnx")
    assert assert_parity(net, policy, [inputs(k, k) for k in (1, 2, 500, 1000)]) <= 1e-5
    assert len(policy.model) < 300_000


@pytest.mark.long
def test_fitting_a_few_rounds_finds_their_optimum() -> None:
    """The loss can be learned: scores and prices reproduce the choices of a handful of rounds."""
    net = network().train()
    batch = Batch.of(labelled(4))
    fitter = torch.optim.Adam(net.parameters(), lr=3e-3)
    first, _ = imitation_loss(net, batch)
    for _ in range(250):
        loss, hits = imitation_loss(net, batch)
        fitter.zero_grad()
        torch.autograd.backward(loss)
        fitter.step()
    assert loss.item() < 0.6 * first.item()
    assert hits.item() > 0.8
