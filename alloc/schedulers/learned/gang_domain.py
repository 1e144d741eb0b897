"""Kind ``gang-domain/1``: a network that chooses the domain of the next gang."""

from __future__ import annotations

from pydantic import Field

from alloc.schedulers.learned.domain_choice import (
    DOMAIN_RULES,
    DomainFeatures,
    DomainPolicyDecider,
)
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.kinds import Actor, Decider, StepwiseKind
from alloc.schedulers.state import Knowledge


class GangDomainParameters(KindParameters):
    """The parameters of the kind; `DomainFeatures` says what they mean.

    Parameters
    ----------
    level
        Topology level whose domains are chosen from.
    domains
        Most domains of that level.
    skip
        Whether the gangs behind one that waits are asked for too.
    """

    level: str = Field(default="leaf", min_length=1, max_length=100)
    domains: int = Field(default=8, ge=1, le=10_000)
    skip: bool = False

    @property
    def domain_features(self) -> DomainFeatures:
        """The features that these parameters stand for."""
        return DomainFeatures(self.level, self.domains, self.skip)


class GangDomainKind(StepwiseKind[GangDomainParameters]):
    """Logits over the domains of a level, anywhere, and waiting, one gang at a time."""

    name = "gang-domain/1"
    title = "sees the domains of a level and the next gang, and chooses where it goes"
    needs: Knowledge = "none"
    features: tuple[str, ...] = DOMAIN_RULES
    parameters = GangDomainParameters
    can_sample = True

    def inputs(self, parameters: GangDomainParameters) -> tuple[TensorSpec, ...]:
        """Return the observation, `DomainFeatures.shape` with a batch axis in front."""
        rows, columns = parameters.domain_features.shape
        return (TensorSpec(name="domains", dtype="float32", shape=("batch", rows, columns)),)

    def outputs(self, parameters: GangDomainParameters) -> tuple[TensorSpec, ...]:
        """Return the logits of the actions."""
        actions = parameters.domain_features.num_actions
        return (TensorSpec(name="logits", dtype="float32", shape=("batch", actions)),)

    def make_stepwise(self, act: Actor, parameters: GangDomainParameters, *, name: str) -> Decider:
        """Return what decides with an actor."""
        return DomainPolicyDecider(act, parameters.domain_features, name=name)
