"""A learned policy as a scheduler."""

from __future__ import annotations

from os import PathLike
from typing import Any

from alloc.errors import UnsupportedFeatureError
from alloc.schedulers.learned.kinds import Decider, parameters_of, policy_kind
from alloc.schedulers.learned.policy_file import PolicyFile, read_policy
from alloc.schedulers.state import ClusterState, Decision, Knowledge


class PolicyScheduler:
    """Decide with a network learned beforehand, run by ONNX Runtime.

    The session opens when a simulation begins and stays out of pickles: another process opens its
    own from the bytes that were checked here.

    Parameters
    ----------
    policy
        A policy file, read or by its path.
    sample
        Whether to draw decisions with the experiment's generator, as DL2 does also when it is
        validated, instead of taking the largest.

    Raises
    ------
    InstanceError
        If the file is not a policy.
    UnsupportedFeatureError
        If its kind cannot sample.
    """

    def __init__(self, policy: PolicyFile | str | PathLike[str], sample: bool = False) -> None:
        if not isinstance(policy, PolicyFile):
            policy = read_policy(policy)
        kind = policy_kind(policy.spec.kind)
        if sample and not kind.can_sample:
            raise UnsupportedFeatureError(
                f"policy {policy.name} decides on all jobs at once and has nothing to draw; "
                "leave out sample."
            )
        # Drawn, it is another row of the table.
        self.name = f"{policy.name}(sample=true)" if sample else policy.name
        self.title = policy.card.title
        self.needs: Knowledge = kind.needs
        self.information = policy.card.information
        self.features = kind.features
        self.draws = sample
        self.sample = sample
        self.policy = policy
        self._decider: Decider | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the session."""
        return {**self.__dict__, "_decider": None}

    @property
    def content(self) -> str:
        """What its decisions depend on, for the key of stored results."""
        return f"{self.policy.sha256} sample={self.sample}"

    def reset(self) -> None:
        """Forget everything; called before each simulation.

        The session opens here, so that its opening is no part of the first decision's time.
        """
        if self._decider is None:
            self._decider = self._open()
        self._decider.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if self._decider is None:
            self._decider = self._open()
        return self._decider.decide(state)

    def _open(self) -> Decider:
        from alloc.schedulers.learned.network import OnnxNetwork

        policy = self.policy
        network = OnnxNetwork(policy.model, policy.spec, self.name)
        kind = policy_kind(policy.spec.kind)
        return kind.make_decider(
            network, parameters_of(policy.spec), name=self.name, sample=self.sample
        )
