"""Gymnasium environments on the simulator of the package."""

from typing import TYPE_CHECKING

from alloc.learning.environments.episode import EpisodeRules as EpisodeRules
from alloc.learning.environments.episodes import ElasticEpisodes as ElasticEpisodes
from alloc.learning.environments.episodes import EpisodeSource as EpisodeSource
from alloc.learning.environments.episodes import GangEpisodes as GangEpisodes
from alloc.learning.environments.rewards import REWARDS as REWARDS
from alloc.learning.environments.rewards import Elapsed as Elapsed
from alloc.learning.environments.rewards import JobElapsed as JobElapsed
from alloc.learning.environments.rewards import Reward as Reward
from alloc.learning.lazy import lazy_names

if TYPE_CHECKING:
    from alloc.learning.environments.elastic_vector import ElasticVector as ElasticVector
    from alloc.learning.environments.environment import ElasticAllocation as ElasticAllocation
    from alloc.learning.environments.environment import GangPlacement as GangPlacement

# Gymnasium: loaded only when an environment is asked for.
__getattr__ = lazy_names(
    __name__,
    {
        "ElasticAllocation": "environment",
        "ElasticVector": "elastic_vector",
        "GangPlacement": "environment",
    },
)
