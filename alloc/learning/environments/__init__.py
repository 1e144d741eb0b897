"""Gymnasium environments on the simulator of the package."""

from importlib.util import find_spec as _find_spec

from alloc.errors import BackendUnavailableError as _Missing

if _find_spec("gymnasium") is None:
    raise _Missing('the environments need Gymnasium; install it with `pip install "alloc[learn]"`.')

from alloc.learning.environments.elastic import ElasticAllocation as ElasticAllocation
from alloc.learning.environments.elastic_vector import ElasticVector as ElasticVector
from alloc.learning.environments.episode import EpisodeRules as EpisodeRules
from alloc.learning.environments.episodes import ElasticEpisodes as ElasticEpisodes
from alloc.learning.environments.episodes import EpisodeSource as EpisodeSource
from alloc.learning.environments.episodes import GangEpisodes as GangEpisodes
from alloc.learning.environments.gang import GangPlacement as GangPlacement
from alloc.learning.environments.rewards import REWARDS as REWARDS
from alloc.learning.environments.rewards import Elapsed as Elapsed
from alloc.learning.environments.rewards import JobElapsed as JobElapsed
from alloc.learning.environments.rewards import Reward as Reward
