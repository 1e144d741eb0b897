"""DL2's hyper-parameters: as its paper gives them, as its released code has them, and ablations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.learning.dl2.world import DL2World
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.units import require_count, require_non_negative, require_positive

Exploration = Literal["rules", "poor-states", "epsilon-greedy", "none"]
"""How training explores, beside drawing from the policy; `alloc.learning.dl2.exploration`."""

SupervisedLoss = Literal["cross-entropy", "mean-square", "absolute"]
"""Losses of the supervised phase; DL2's code knows these three."""

Reward = Literal["progress", "jobs-in-system", "weighted-jct", "completions"]
"""Rewards of a slot; `alloc.learning.environments.REWARDS`."""


def _require_known(name: str, known: Collection[str], what: str) -> None:
    """Refuse a name that is not among those known; `what` it is begins the sentence."""
    if name not in known:
        raise InstanceError(
            f'{what} "{name}" is unknown{nearest(name, known, ";")} known: {", ".join(known)}.'
        )


@dataclass(frozen=True)
class DL2Settings:
    """All that a training of DL2 depends on.

    The defaults are the configuration of the released code (preset ``released``).

    Parameters
    ----------
    world
        The traces.
    training_traces, validation_traces, held_out_traces
        Traces to train on (taken in turn), to choose the checkpoint on, and to report on.
    window
        Jobs that the network sees.
    encoding
        How it sees them, see `WindowFeatures`.
    initial_bundle
        Whether every job gets a worker and a PS before the network is asked (the code does so
        against starvation; the paper does not mention it).
    hidden
        Widths of the hidden layers; both networks have the same.
    scale_shift
        Whether a scale and a shift for each unit follow each hidden layer. The released code's
        batch normalisation never leaves its initial statistics, and is just that.
    teacher
        Scheduler whose decisions the supervised phase imitates: a name of the registry.
    supervised_updates
        Updates of the supervised phase; 0 leaves it out.
    supervised_kept
        Update whose weights reinforcement learning starts from. Released: the file written at 100
        of 200.
    supervised_lr, supervised_loss
        Learning rate of Adam in this phase, and its loss.
    from_pairs
        Whether it begins slots with the initial bundle and ends them with a label for ending the
        slot, as reinforcement learning sees them. Released: no; it begins from nothing, never
        teaches to end a slot, and shows the dominant share a job had in the slot before.
    shuffled
        Whether it deals the jobs to random columns. Released: yes.
    updates
        Updates of reinforcement learning, one after each slot that left samples; 0 leaves it out.
    lr, batch
        Learning rate of Adam, for both networks, and samples of an update.
    replay
        Samples that are kept; learning begins when it is full.
    prioritised
        Whether samples are drawn by priority and weighed, as in the code, or evenly.
    critic
        Whether a value network gives the baseline, or the mean of the rewards kept.
    discount
        Weight of the critic's value of the next slot in the target. Paper: 0.9. Released: none, so
        that each slot is a problem of its own.
    entropy, entropy_per_action
        Weight of the entropy, and whether it is divided by the number of actions, as the code does
        by averaging.
    stored_gradient
        Whether the gradient is taken at the probabilities stored when the sample was made, as the
        code does by feeding them in, or at those of the network as it now is.
    exploration
        ``rules`` of the code, ``poor-states`` of the paper, ``epsilon-greedy`` (what the code puts
        in place of its rules in its own ablation), or ``none``.
    exploration_share
        Probability with which the paper corrects a poor state.
    reward
        What a slot is worth. Released: ``progress``.
    validate_every
        Updates between validations, in either phase.
    greedy_validation
        Whether validation takes the likeliest action instead of drawing. Released: it draws.
    """

    world: DL2World = field(default_factory=DL2World)
    training_traces: int = 100
    validation_traces: int = 10
    held_out_traces: int = 10
    window: int = 20
    encoding: Literal["released", "rescaled", "paper"] = "released"
    initial_bundle: bool = True
    hidden: tuple[int, ...] = (80, 80)
    scale_shift: bool = True
    teacher: str = "drf"
    supervised_updates: int = 200
    supervised_kept: int = 100
    supervised_lr: float = 0.005
    supervised_loss: SupervisedLoss = "cross-entropy"
    from_pairs: bool = False
    shuffled: bool = True
    updates: int = 6000
    lr: float = 0.0001
    batch: int = 256
    replay: int = 8192
    prioritised: bool = True
    critic: bool = True
    discount: float = 0.0
    entropy: float = 0.1
    entropy_per_action: bool = True
    stored_gradient: bool = True
    exploration: Exploration = "rules"
    exploration_share: float = 0.4
    reward: Reward = "progress"
    validate_every: int = 50
    greedy_validation: bool = False

    def __post_init__(self) -> None:
        where = "DL2 settings"
        traces = ("training_traces", "validation_traces", "held_out_traces")
        for name in (*traces, "window", "batch", "validate_every"):
            require_count(getattr(self, name), where, name, least=1)
        for name in ("supervised_updates", "supervised_kept", "updates"):
            require_count(getattr(self, name), where, name)
        require_count(self.replay, where, "replay", least=self.batch)
        for name in ("supervised_lr", "lr"):
            require_positive(getattr(self, name), where, name)
        require_non_negative(self.entropy, where, "entropy")
        for name in ("discount", "exploration_share"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InstanceError(f"{where}: {name} is {value:g}; it must be 0 to 1.")
        texts = {"exploration": Exploration, "supervised_loss": SupervisedLoss, "reward": Reward}
        for name, kinds in texts.items():
            _require_known(getattr(self, name), get_args(kinds), f"{where}: {name}")
        wrong = ""
        if not self.hidden or min(self.hidden) < 1:
            wrong = f"hidden is {self.hidden}; give one width or more, each 1 or more."
        elif self.supervised_kept > self.supervised_updates:
            wrong = (
                f"supervised_kept is {self.supervised_kept}, after the last of "
                f"{self.supervised_updates} supervised updates; it must not be later."
            )
        elif self.discount and not self.critic:
            wrong = (
                f"discount is {self.discount:g} without a critic, which gives the value of the "
                "next slot; keep the critic, or set discount to 0."
            )
        elif self.steps == 0:
            wrong = "supervised_updates and updates are both 0; train at least once."
        if wrong:
            raise InstanceError(f"{where}: {wrong}")
        _ = self.features  # refuses an unknown encoding

    @property
    def features(self) -> WindowFeatures:
        """What the network is shown, and what its answers mean."""
        max_tasks, bundle = self.world.max_tasks, self.initial_bundle
        return WindowFeatures(self.window, max_tasks, self.encoding, initial_bundle=bundle)

    @property
    def spec(self) -> FeatureSpec:
        """The spec of the policies that are trained."""
        return feature_spec("dl2-window/1", **asdict(self.features))

    @property
    def information(self) -> str:
        """What these policies use, for their model card."""
        return (
            "type, slots since arrival, remaining share of the work and tasks given, of the first "
            f"{self.window} jobs"
        )

    @property
    def data(self) -> str:
        """Where the traces come from, for the model card."""
        world = self.world
        return (
            f"Traces of {world.num_jobs} jobs of DL2's eight models on {world.num_hosts} of its "
            f"servers, {world.arrivals} arrivals of {world.arrivals_per_slot:g} a slot, speeds "
            "from this project's fits to DL2's measurements (alloc.learning.dl2.world)."
        )

    @property
    def steps(self) -> int:
        """Updates in all."""
        return self.supervised_updates + self.updates

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self) | {"hidden": list(self.hidden)}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the settings: equal for equal trainings up to the seed."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


WINDOW_LIMITS = (
    "Decides in slots only, and only for malleable jobs of workers and PSs on equal hosts.",
    "Sees the first jobs of its window in order of arrival; the others keep their first pair.",
    "Knows DL2's eight models by number; of others it sees no type.",
    "Trained for one size of cluster and one arrival pattern; elsewhere nobody has measured it.",
)
"""Known limits of every policy that is trained in DL2's world."""

RELEASED = DL2Settings()

PRESETS: Mapping[str, DL2Settings] = {
    "released": RELEASED,
    "released-experiment": replace(RELEASED, hidden=(120,)),
    "paper": DL2Settings(
        encoding="paper",
        initial_bundle=False,
        hidden=(256, 256),
        scale_shift=False,
        prioritised=False,
        discount=0.9,
        entropy_per_action=False,
        stored_gradient=False,
        exploration="poor-states",
        supervised_kept=200,
    ),
}
"""Named configurations: the code's ``parameters.py`` (two hidden layers of two thirds of the
inputs), the template of its experiments (one as wide as the inputs), and the paper's text."""

WITHOUT_SUPERVISED = {"supervised_updates": 0, "supervised_kept": 0}

ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "no-supervised": WITHOUT_SUPERVISED,
    "no-reinforcement": {"updates": 0, "supervised_kept": 200},
    "no-exploration": {"exploration": "none"},
    "epsilon-greedy": {"exploration": "epsilon-greedy"},
    "no-supervised-no-exploration": WITHOUT_SUPERVISED | {"exploration": "none"},
    "no-critic": {"critic": False},
    "no-replay": {"replay": 256},
    "teacher-fifo": {"teacher": "fifo"},
    "teacher-srtf": {"teacher": "srtf-dl2"},
    "teacher-optimus": {"teacher": "optimus"},
    "teacher-optimum": {"teacher": "exact-remaining-time", "from_pairs": True, "shuffled": False},
    "aligned-reward": {"reward": "jobs-in-system"},
    "discounted": {"discount": 0.9},
    "aligned-discounted": {"reward": "jobs-in-system", "discount": 0.9},
}
"""Ablations: what each changes. ``no-replay`` keeps one batch, as the code's own ablation does."""


def preset(name: str, *ablations: str, **changes: Any) -> DL2Settings:
    """Return a named configuration with ablations and changes.

    Parameters
    ----------
    name
        A name of `PRESETS`.
    *ablations
        Names of `ABLATIONS`, applied in order.
    **changes
        Fields of `DL2Settings`, applied last.

    Raises
    ------
    InstanceError
        If a name is unknown or a value out of range.
    """
    chosen: dict[str, Any] = {}
    for ablation in ablations:
        _require_known(ablation, ABLATIONS, "DL2 ablation")
        chosen |= ABLATIONS[ablation]
    _require_known(name, PRESETS, "DL2 preset")
    return changed(PRESETS[name], chosen | changes)


def changed(settings: DL2Settings, changes: Mapping[str, Any]) -> DL2Settings:
    """Return settings with some fields changed; ``world.NAME`` is a field of the world.

    Plain JSON values will do.

    Parameters
    ----------
    settings
        What the others are taken from.
    changes
        New values by name of the field.

    Raises
    ------
    InstanceError
        If there is no such field, or it cannot have that value.
    """
    own: dict[str, Any] = {}
    worldly: dict[str, Any] = {}
    for name, value in changes.items():
        of_world = name.startswith("world.")
        holder, short = (DL2World, name[len("world.") :]) if of_world else (DL2Settings, name)
        defaults = {
            f.name: getattr(settings.world if of_world else settings, f.name)
            for f in fields(holder)
        }
        if short not in defaults:
            raise InstanceError(
                f'DL2 settings have no "{name}"{nearest(short, defaults, ";")} '
                f"{'their world has' if of_world else 'they have'} {', '.join(defaults)}."
            )
        (worldly if of_world else own)[short] = _like(name, value, defaults[short])
    if worldly:
        own["world"] = replace(own.get("world", settings.world), **worldly)
    return replace(settings, **own)


def _like(name: str, value: Any, default: Any) -> Any:
    """Return a value as the type of the field, or refuse it."""
    if isinstance(default, tuple):
        widths = value if isinstance(value, list | tuple) else [value]
        if all(type(width) is int for width in widths):
            return tuple(widths)
    elif type(value) is type(default):
        return value
    elif isinstance(default, float) and type(value) is int:
        return float(value)
    kind = "whole numbers" if isinstance(default, tuple) else type(default).__name__
    raise InstanceError(f"DL2 settings: {name} is {value!r}; give {kind}, such as {default!r}.")
