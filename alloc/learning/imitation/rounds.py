"""Labelled rounds: what a policy saw and what the optimum did, and how far they are apart."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from alloc.documents.files import read_bytes, write_bytes
from alloc.errors import InstanceError
from alloc.learning.imitation.network import SetPolicy
from alloc.learning.pytorch import Tensor, torch
from alloc.schedulers.learned.job_set import JobSetRound
from alloc.schedulers.learned.job_set_choice import TERMS

Array = npt.NDArray[np.float32]
Labels = TypeVar("Labels")


@dataclass(frozen=True)
class LabelledRound:
    """A round with the optimal choice.

    Parameters
    ----------
    jobs, resources
        The input of the network, shape (jobs, features) and (resources, features).
    terms
        The three terms of the score of each job in each column, weight included, slots, shape
        (jobs, C, 3).
    share
        Share of each resource of each job in each column, shape (jobs, C, resources); 1e9 in
        columns that only fill the array.
    choice
        Chance of each column in the optimum, and in the last place of none, shape (jobs, C + 1).
    prices
        Price of the whole cluster's resource in the optimum, slots, shape (resources,).
    """

    jobs: Array
    resources: Array
    terms: Array
    share: Array
    choice: Array
    prices: Array


def label(
    round_: JobSetRound, choice: npt.NDArray[np.float64], prices: npt.NDArray[np.float64]
) -> LabelledRound:
    """Return a round with its label.

    Parameters
    ----------
    round_
        The round as the network sees it.
    choice
        Chance of each column, and in the last place of none, shape (jobs, C + 1).
    prices
        Price of the whole cluster's resource, slots, shape (resources,).
    """
    ones = np.eye(TERMS)
    terms = [round_.utilities(np.broadcast_to(one, (len(round_.views), TERMS))) for one in ones]
    return LabelledRound(
        jobs=round_.tensors["jobs"],
        resources=round_.tensors["resources"],
        terms=np.stack(terms, axis=-1).astype(np.float32),
        share=round_.book.share[round_.jobs.table].astype(np.float32),
        choice=choice.astype(np.float32),
        prices=prices.astype(np.float32),
    )


def save_rounds(path: Path, rounds: Sequence[LabelledRound]) -> None:
    """Write labelled rounds to one file, as a whole.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    rounds
        What it holds, in this order.
    """
    names = [field.name for field in fields(LabelledRound)]
    save_arrays(path, {f"{k}/{n}": getattr(r, n) for k, r in enumerate(rounds) for n in names})


def load_rounds(path: Path) -> list[LabelledRound]:
    """Read the labelled rounds of a file, see `load_arrays`."""

    def rounds(kept: Mapping[str, npt.NDArray[Any]]) -> list[LabelledRound]:
        count = 1 + max((int(name.partition("/")[0]) for name in kept), default=-1)
        names = [field.name for field in fields(LabelledRound)]
        return [LabelledRound(**{n: kept[f"{k}/{n}"] for n in names}) for k in range(count)]

    return load_arrays(path, "labelled rounds", rounds)


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to one file, as a whole.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    arrays
        What it holds, by name.
    """
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


def load_arrays(
    path: Path, what: str, read: Callable[[Mapping[str, npt.NDArray[Any]]], Labels]
) -> Labels:
    """Return what `read` makes of the arrays of a file.

    Parameters
    ----------
    path
        The file.
    what
        What it should hold, for the message.
    read
        Makes of the arrays, by name, what is returned.

    Raises
    ------
    InstanceError
        If the file is not there or not whole.
    """
    if not path.exists():
        raise InstanceError(
            f"{path}: is not there; the training folder is not whole, so begin a new one."
        )
    data = read_bytes(path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as kept:
            return read(kept)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InstanceError(
            f"{path}: cannot be read as {what} ({str(error)[:100]}); begin a new folder."
        ) from None


@dataclass(frozen=True)
class Batch:
    """Labelled rounds as tensors with a batch axis in front, filled up to the longest of each axis.

    `absent` says which jobs only fill the batch, shape (batch, jobs).
    """

    jobs: Tensor
    resources: Tensor
    terms: Tensor
    share: Tensor
    choice: Tensor
    prices: Tensor
    absent: Tensor

    @staticmethod
    def of(rounds: Sequence[LabelledRound]) -> Batch:
        """Return the batch of some rounds."""
        most = max(len(round_.jobs) for round_ in rounds)
        width = max(round_.share.shape[1] for round_ in rounds)
        size, first = len(rounds), rounds[0]
        jobs = np.zeros((size, most, first.jobs.shape[1]), dtype=np.float32)
        terms = np.zeros((size, most, width, TERMS), dtype=np.float32)
        share = np.full((size, most, width, first.share.shape[2]), 1e9, dtype=np.float32)
        choice = np.zeros((size, most, width + 1), dtype=np.float32)
        absent = np.ones((size, most), dtype=bool)
        for k, round_ in enumerate(rounds):
            count, columns = round_.share.shape[:2]
            jobs[k, :count] = round_.jobs
            terms[k, :count, :columns] = round_.terms
            share[k, :count, :columns] = round_.share
            choice[k, :count, :columns] = round_.choice[:, :-1]
            choice[k, :count, -1] = round_.choice[:, -1]
            absent[k, :count] = False
        arrays = (
            jobs,
            np.stack([round_.resources for round_ in rounds]),
            terms,
            share,
            choice,
            np.stack([round_.prices for round_ in rounds]),
            absent,
        )
        return Batch(*(torch.from_numpy(array) for array in arrays))


TEMPERATURE = 0.25
"""Slots by which a score must exceed another for its column to be e times as likely."""
PRICE_WEIGHT = 0.3
"""Weight of the error in the prices beside that in the choices."""
_UNAFFORDABLE = -1e6
"""Score of a column that only fills the array: its chance is 0, and unlike minus infinity the score
times a chance of 0 is 0.
"""


def imitation_loss(network: SetPolicy, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss, and the share of jobs whose likeliest choice is the optimal one.

    Every job chooses among its columns and nothing by a softmax of the scores under the network's
    own prices; the loss is the cross entropy to the optimal choice, which may be a mixture (the
    linear optimum splits a few jobs), plus the squared error of the logarithm of prices.

    Parameters
    ----------
    network
        The network in training.
    batch
        Labelled rounds, filled up to one size.
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
