"""DL2's own network learned from the optimum: DAgger on a scheduler that sees all.

The same network, window and actions as DL2 (`alloc.learning.dl2`), but every state that the network
itself comes to is labelled with the step that a teacher would take there: of the steps that lead
the jobs in view to what the teacher gives them, the one that gains most. What is left between this
policy and its teacher is what the window and the network cost, without any reward in between.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alloc.learning.dl2.networks import DenseForward, DenseNetwork
from alloc.learning.dl2.rollout import Player
from alloc.learning.dl2.settings import WINDOW_LIMITS, DL2Settings
from alloc.learning.dl2.teacher import by_gain, tasks_of
from alloc.learning.dl2.trainer import JCT
from alloc.learning.imitation.rounds import load_arrays, save_arrays
from alloc.learning.imitation.training import DAGGER
from alloc.learning.pytorch import functional, nn, torch
from alloc.learning.training import (
    Account,
    State,
    Trainer,
    single_thread,
    step_generator,
    step_rng,
    weights_of,
)
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.window import Reply, WindowSlot
from alloc.schedulers.state import ClusterState, Scheduler
from alloc.simulation import Simulation
from alloc.units import require_count

STAGE = "imitation"
"""Stage of the training in its curve."""

_WEIGHTS, _PLAY, _FIT = 11, 12, 13
"""What sets the draws of a training apart."""


@dataclass(frozen=True)
class WindowPlan:
    """What a training of the window network from the optimum depends on.

    Parameters
    ----------
    dl2
        World, window, encoding and network, as for DL2; what concerns its own training is unused.
    teacher
        Scheduler whose decisions are imitated: a name of the registry.
    iterations, traces
        Iterations of DAgger, and traces played in each. In the first the teacher's steps are taken,
        in the others the network's own.
    updates, batch
        Gradient updates after each iteration, and samples of each.
    lr
        Learning rate of Adam at the beginning; it falls to a tenth.
    max_slots
        Slots after which a trace is left: an untrained network may never finish it.
    """

    dl2: DL2Settings = field(default_factory=DL2Settings)
    teacher: str = "exact-progress"
    iterations: int = 12
    traces: int = 3
    updates: int = 400
    lr: float = 2e-3
    batch: int = 256
    max_slots: int = 150

    def __post_init__(self) -> None:
        for name in ("iterations", "traces", "updates", "batch", "max_slots"):
            require_count(getattr(self, name), "window training", name, least=1)


@dataclass(frozen=True)
class Shown:
    """Labelled states: flat observations, allowed actions, and what the teacher would do."""

    states: npt.NDArray[np.float32]
    masks: npt.NDArray[np.bool_]
    actions: npt.NDArray[np.int64]


class WindowTraining(Trainer):
    """The training of a window network from the optimum.

    Labelled states are kept in `folder` between runs; the seed is that of weights, traces and
    draws.
    """

    kind = "window-policy"

    def __init__(
        self, folder: str | PathLike[str], plan: WindowPlan | None = None, *, seed: int = 0
    ) -> None:
        self.plan = plan = plan or WindowPlan()
        settings = plan.dl2
        network = DenseNetwork(
            settings.features.shape,
            settings.hidden,
            settings.features.num_actions,
            scale_shift=settings.scale_shift,
            generator=step_generator(seed, _WEIGHTS),
        )
        super().__init__(network, plan.iterations, seed)
        self.network: DenseNetwork = network
        self.settings = asdict(plan) | {"dl2": settings.fingerprint, "seed": seed}
        self.spec = settings.spec
        self._folder = Path(folder)
        make_scheduler(plan.teacher)  # an unknown one is refused before any work is done
        self._fitter = torch.optim.Adam(self.network.parameters(), plan.lr)
        self._files: list[str] = []
        self._parts: list[Shown] = []
        self._player = Player(settings.features, settings.validation_traces)
        self._validation = settings.world.validation(settings.validation_traces)

    def advance(self) -> str:
        """Take one iteration of DAgger; return in words how it went."""
        with single_thread():
            k, plan = self.step, self.plan
            network = None if k == 0 else self.network
            traces = range(k * plan.traces, (k + 1) * plan.traces)
            parts = self.rollouts(
                play_trace, [(plan, self.seed, trace, network) for trace in traces]
            )
            name = f"states-{k:04d}.npz"
            save_shown(self._folder / name, join(parts))
            self._files.append(name)
            self._parts += parts
            loss = self._fit(k)
            jct = float(
                np.mean(self._player.play(DenseForward(self.network), self._validation, None))
            )
        self.step += 1
        states = sum(len(part.actions) for part in self._parts)
        self.curve.add(self.step, STAGE, loss=loss, states=states, **{JCT: jct})
        self._keep_best(jct)
        return f"{states} states, loss {loss:.3f}, mean JCT {jct:.3f} slots in validation"

    def _fit(self, k: int) -> float:
        """Fit all labelled states; return the mean loss of the second half."""
        plan, shown = self.plan, join(self._parts)
        states = torch.from_numpy(shown.states).reshape(-1, *plan.dl2.features.shape)
        masks, actions = torch.from_numpy(shown.masks), torch.from_numpy(shown.actions)
        rng = step_rng(self.seed, _FIT, k)
        losses = []
        for update in range(plan.updates):
            done = (k + update / plan.updates) / plan.iterations
            for group in self._fitter.param_groups:
                group["lr"] = plan.lr * (1.0 - 0.9 * done)
            drawn = torch.from_numpy(rng.integers(len(actions), size=plan.batch))
            logits = self.network(states[drawn]).masked_fill(~masks[drawn], -1e9)
            loss = functional.cross_entropy(logits, actions[drawn])
            self._fitter.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self._fitter.step()
            if 2 * update >= plan.updates:
                losses.append(loss.item())
        return float(np.mean(losses))

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "network": weights_of(self.network),
            "best": self._best,
            "best_jct_slots": self.best_value,
            "fitter": self._fitter.state_dict(),
            "files": list(self._files),
        }

    def restore(self, state: State) -> None:
        """Take up a state; reads the labelled states it names."""
        self.network.load_state_dict(state["network"])
        self._best = dict(state["best"])
        self.best_value = float(state["best_jct_slots"])
        self._fitter.load_state_dict(state["fitter"])
        self._files = list(state["files"])
        self._parts = [load_shown(self._folder / name) for name in self._files]

    def account(self) -> Account:
        """Return what the model card says of this training."""
        plan, settings = self.plan, self.plan.dl2
        return Account(
            title="DL2's network, learned from the optimum instead of by reward",
            information=settings.information,
            data=(
                f"{settings.data} {plan.iterations} iterations of DAgger on the decisions of "
                f"{plan.teacher}; the network with the lowest mean JCT on "
                f"{settings.validation_traces} validation traces was kept."
            ),
            limits=WINDOW_LIMITS,
            references=(DAGGER, "Peng et al., DL2, IEEE TPDS 2021"),
            measure=JCT,
            curve_step="iteration",
            curve_value="mean JCT, slots",
        )


def play_trace(plan: WindowPlan, seed: int, trace: int, network: DenseNetwork | None) -> Shown:
    """Play a training trace of a plan and label every state on the way, as `play` does.

    Parameters
    ----------
    plan, seed
        The training.
    trace
        Number of the trace.
    network
        Whose likeliest actions are taken, or None to take the teacher's steps.
    """
    return play(
        plan.dl2.world.training(seed, trace),
        make_scheduler(plan.teacher),
        WindowSlot(plan.dl2.features, name="pupil"),
        None if network is None else DenseForward(network),
        plan.max_slots,
    )


def play(
    instance: Instance,
    teacher: Scheduler,
    slot: WindowSlot,
    forward: DenseForward | None,
    max_slots: int,
) -> Shown:
    """Play a trace and label every state on the way.

    Parameters
    ----------
    instance, max_slots
        The trace, and the slots after which it is left.
    teacher
        Says what each job should get.
    slot
        The window, at its beginning.
    forward
        The network whose likeliest actions are taken, or None to take the teacher's steps.
    """
    teacher.reset()
    simulation = Simulation(instance, decider="pupil", stalls=False)
    states, masks, actions = [], [], []
    state = simulation.next_decision()
    for _ in range(max_slots):
        if state is None:
            break
        targets = targets_of(teacher, state)
        slot.open(state)
        while slot.has_moves:
            wanted = next_step(slot, targets)
            if slot.mask[wanted]:
                states.append(slot.observation.ravel().copy())
                masks.append(slot.mask.copy())
                actions.append(wanted)
            taken = wanted
            if forward is not None:
                logits = np.where(slot.mask, forward(slot.observation.ravel()), -np.inf)
                taken = int(logits.argmax())
            if slot.act(taken) is not Reply.GRANTED:
                break
        simulation.apply(slot.close())
        state = simulation.next_decision()
    inputs, count = slot.observation.size, len(slot.mask)
    return Shown(
        np.array(states, np.float32).reshape(-1, inputs),
        np.array(masks, np.bool_).reshape(-1, count),
        np.array(actions, np.int64),
    )


def targets_of(teacher: Scheduler, state: ClusterState) -> dict[str, tuple[int, int]]:
    """Return the workers and PSs that a teacher gives each job in a slot.

    Parameters
    ----------
    teacher
        A scheduler that sees all.
    state
        What it sees; the pool is empty afterwards.
    """
    decision = teacher.decide(state)
    # The window begins from the empty cluster, like the teacher.
    state.pool.reset()
    return tasks_of(decision)


def next_step(slot: WindowSlot, targets: dict[str, tuple[int, int]]) -> int:
    """Return the action that leads the jobs in view on towards their targets, or ends the slot.

    Parameters
    ----------
    slot
        The decision in steps, as far as it is taken.
    targets
        Workers and PSs of each job, by id.
    """
    in_view = {job.view.id: job for job in slot.columns}
    grant = next(by_gain(in_view, targets), None)
    if grant is None:
        return slot.features.end_slot
    job_id, step = grant
    return 3 * list(in_view).index(job_id) + step


def join(parts: list[Shown]) -> Shown:
    """Return labelled states one after the other."""
    return Shown(
        np.concatenate([part.states for part in parts]),
        np.concatenate([part.masks for part in parts]),
        np.concatenate([part.actions for part in parts]),
    )


def save_shown(path: Path, shown: Shown) -> None:
    """Write labelled states to a file, as a whole.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    shown
        The labelled states.
    """
    save_arrays(path, vars(shown))


def load_shown(path: Path) -> Shown:
    """Read labelled states, see `load_arrays`."""
    return load_arrays(
        path, "labelled states", lambda kept: Shown(kept["states"], kept["masks"], kept["actions"])
    )
