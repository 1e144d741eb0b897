"""DL2 as published: state, networks, supervised phase, actor-critic."""

from typing import TYPE_CHECKING

from alloc.learning.dl2.settings import ABLATIONS as ABLATIONS
from alloc.learning.dl2.settings import PRESETS as PRESETS
from alloc.learning.dl2.settings import DL2Settings as DL2Settings
from alloc.learning.dl2.settings import changed as changed
from alloc.learning.dl2.settings import preset as preset
from alloc.learning.dl2.world import DL2World as DL2World
from alloc.learning.lazy import lazy_names

if TYPE_CHECKING:
    from alloc.learning.dl2.outcome import DL2Outcome as DL2Outcome
    from alloc.learning.dl2.outcome import outcome_of as outcome_of
    from alloc.learning.dl2.trainer import DL2Trainer as DL2Trainer

# PyTorch: loaded only when something that needs it is asked for.
__getattr__ = lazy_names(
    __name__,
    {
        "DL2Outcome": "outcome",
        "DL2Trainer": "trainer",
        "outcome_of": "outcome",
    },
)
