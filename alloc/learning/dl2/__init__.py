"""DL2 as published: state, networks, supervised phase, actor-critic."""

from importlib.util import find_spec as _find_spec

from alloc.errors import BackendUnavailableError as _Missing

if _find_spec("torch") is None or _find_spec("gymnasium") is None:
    raise _Missing(
        "training DL2 needs PyTorch and Gymnasium, which are not both installed; pip install "
        '"alloc[learn]".'
    )

from alloc.learning.dl2.publishing import DL2Outcome as DL2Outcome
from alloc.learning.dl2.publishing import outcome_of as outcome_of
from alloc.learning.dl2.publishing import publish as publish
from alloc.learning.dl2.settings import ABLATIONS as ABLATIONS
from alloc.learning.dl2.settings import PRESETS as PRESETS
from alloc.learning.dl2.settings import DL2Settings as DL2Settings
from alloc.learning.dl2.settings import changed as changed
from alloc.learning.dl2.settings import preset as preset
from alloc.learning.dl2.trainer import DL2Trainer as DL2Trainer
from alloc.learning.dl2.world import DL2World as DL2World
