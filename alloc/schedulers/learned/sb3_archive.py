"""Agents of Stable-Baselines3 and sb3-contrib as schedulers: the archive that ``save`` wrote.

An archive holds pickles, and a pickle runs code: open only what you trust. So one is opened where
somebody names its path, and never by the server.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

from alloc.errors import BackendUnavailableError, InstanceError, nearest
from alloc.schedulers.learned.agent import AgentScheduler
from alloc.schedulers.learned.shapes import spec_of_spaces
from alloc.schedulers.places import raised

ALGORITHMS = {
    "PPO": "stable_baselines3",
    "A2C": "stable_baselines3",
    "DQN": "stable_baselines3",
    "MaskablePPO": "sb3_contrib",
    "RecurrentPPO": "sb3_contrib",
    "QRDQN": "sb3_contrib",
    "TRPO": "sb3_contrib",
}
"""Algorithms with numbered actions, and the package of each."""

_POLICIES = {
    "stable_baselines3.dqn.policies": "DQN",
    "sb3_contrib.common.maskable.policies": "MaskablePPO",
    "sb3_contrib.common.recurrent.policies": "RecurrentPPO",
    "sb3_contrib.qrdqn.policies": "QRDQN",
}
"""Algorithms that only one module of policies belongs to."""


class Sb3Archive:
    """Makes the scheduler of an archive.

    Parameters
    ----------
    path
        The file, whose name ends in ``.zip``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self,
        algorithm: str | None = None,
        deterministic: bool = True,
        kind: str | None = None,
        **parameters: Any,
    ) -> AgentScheduler:
        """Decide with a trained agent of Stable-Baselines3 or sb3-contrib.

        Further options are parameters of its kind, as its environment had them: ``encoding``,
        ``max_tasks``, ``initial_bundle`` of a window, ``level`` and ``skip`` of gangs.

        Parameters
        ----------
        algorithm
            Class that trained it, such as ``MaskablePPO``; null: read from the archive.
        deterministic
            Take the likeliest action instead of drawing one.
        kind
            What it is shown, such as ``dl2-window/1``; null: told by its spaces.

        Raises
        ------
        InstanceError
            If the file is no such archive, or was trained in none of alloc's environments.
        BackendUnavailableError
            Without Stable-Baselines3.
        """
        where = str(self.path)
        name = algorithm or _algorithm_of(self.path)
        if name not in ALGORITHMS:
            raise InstanceError(
                f'{where}: algorithm is "{name}"{nearest(name, ALGORITHMS, ";")} it must be one of '
                f"{', '.join(ALGORITHMS)}."
            )
        model = _load(self.path, name)
        return agent_of_model(
            model,
            where,
            self.path.stem,
            deterministic=deterministic,
            kind=kind,
            parameters=parameters,
        )


def agent_of_model(
    model: Any,
    where: str,
    name: str,
    *,
    deterministic: bool = True,
    kind: str | None = None,
    parameters: dict[str, Any] | None = None,
) -> AgentScheduler:
    """Return the scheduler of a loaded agent; its spaces tell what it is shown.

    Parameters
    ----------
    model
        The agent, with the spaces that it was trained in and its `predict`.
    where
        Where it is from, for the message.
    name
        Name of the scheduler.
    deterministic
        Whether to take the likeliest action instead of drawing one.
    kind, parameters
        Kind of policy and its parameters, where the spaces leave a choice; None: as they say.

    Raises
    ------
    InstanceError
        If its spaces are not those of an environment of alloc.
    """
    seen, acts = model.observation_space, model.action_space
    if getattr(acts, "n", None) is None or getattr(seen, "low", None) is None:
        raise InstanceError(
            f"{where}: was trained on {type(seen).__name__} observations with "
            f"{type(acts).__name__} actions, and alloc's environments have Box and Discrete; train "
            "it in one of them."
        )
    spec = spec_of_spaces(seen.low, seen.high, int(acts.n), kind, parameters or {}, where)
    return AgentScheduler(
        model,
        spec,
        name=name,
        deterministic=deterministic,
        information=f"what its agent was trained on ({spec.kind})",
    )


def _algorithm_of(path: Path) -> str:
    """Return the class that trained an archive, read without opening a pickle."""
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("data"))
        module = str(data["policy_class"]["__module__"])
    except FileNotFoundError:
        raise InstanceError(
            f"{path}: there is no such file; name the archive that the agent's save wrote."
        ) from None
    except OSError as error:
        raise InstanceError(f"{path}: cannot be read ({error.strerror}).") from None
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, RuntimeError):
        # RuntimeError: encrypted, packed as Python cannot, or nested too deep.
        raise InstanceError(
            f"{path}: is no agent that Stable-Baselines3 saved; name the archive that the agent's "
            "save wrote."
        ) from None
    if module in _POLICIES:
        return _POLICIES[module]
    if module == "stable_baselines3.common.policies":
        # These share their policies; each has a setting that the others lack.
        marks = {"clip_range": "PPO", "cg_max_steps": "TRPO"}
        return next((name for mark, name in marks.items() if mark in data), "A2C")
    raise InstanceError(
        f"{path}: has a policy of its own ({module}), which does not say what trained it; add the "
        f"option algorithm, one of {', '.join(ALGORITHMS)}."
    )


def _load(path: Path, algorithm: str) -> Any:
    package = ALGORITHMS[algorithm]
    try:
        trainer = getattr(import_module(package), algorithm)
    except ImportError as error:
        needed = package.replace("_", "-")
        raise BackendUnavailableError(
            f"{path}: is an agent of {algorithm} and needs {needed}, which cannot be loaded "
            f"({error}); install it with pip install {needed}."
        ) from None
    try:
        return trainer.load(path, device="cpu")
    except Exception as error:  # whatever pickles and PyTorch raise
        raise InstanceError(
            f"{path}: cannot be loaded as {algorithm}, {raised(error)}; save it again with the "
            "versions that are installed here, or name another algorithm."
        ) from error
