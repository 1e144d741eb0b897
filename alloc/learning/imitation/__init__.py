"""Learning from the optimum: imitation of exact rounds and horizons, then evolution by reward."""

from typing import TYPE_CHECKING

from alloc.learning.lazy import lazy_names

if TYPE_CHECKING:
    from alloc.learning.imitation.network import SetPolicy as SetPolicy
    from alloc.learning.imitation.training import Plan as Plan
    from alloc.learning.imitation.training import SetPolicyTraining as SetPolicyTraining
    from alloc.learning.imitation.windowed import WindowPlan as WindowPlan
    from alloc.learning.imitation.windowed import WindowTraining as WindowTraining

# PyTorch: loaded only when something that needs it is asked for.
__getattr__ = lazy_names(
    __name__,
    {
        "Plan": "training",
        "SetPolicy": "network",
        "SetPolicyTraining": "training",
        "WindowPlan": "windowed",
        "WindowTraining": "windowed",
    },
)
