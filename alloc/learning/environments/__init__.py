"""Gymnasium environments on the simulator of the package."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alloc.learning.environments.episode import EpisodeRules as EpisodeRules
from alloc.learning.environments.episodes import ElasticEpisodes as ElasticEpisodes
from alloc.learning.environments.episodes import EpisodeSource as EpisodeSource
from alloc.learning.environments.episodes import GangEpisodes as GangEpisodes
from alloc.learning.environments.rewards import REWARDS as REWARDS
from alloc.learning.environments.rewards import Elapsed as Elapsed
from alloc.learning.environments.rewards import JobElapsed as JobElapsed
from alloc.learning.environments.rewards import Reward as Reward

if TYPE_CHECKING:
    from alloc.learning.environments.elastic import ElasticAllocation as ElasticAllocation
    from alloc.learning.environments.elastic_vector import ElasticVector as ElasticVector
    from alloc.learning.environments.gang import GangPlacement as GangPlacement

_LAZY = {
    "ElasticAllocation": "elastic",
    "ElasticVector": "elastic_vector",
    "GangPlacement": "gang",
}


def __getattr__(name: str) -> Any:
    """Load Gymnasium only when an environment is asked for."""
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
