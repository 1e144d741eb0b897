"""Learning from the optimum: imitation of exact rounds and horizons, then evolution by reward."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alloc.learning.imitation.network import SetPolicy as SetPolicy
    from alloc.learning.imitation.publishing import publish as publish
    from alloc.learning.imitation.publishing import publish_window as publish_window
    from alloc.learning.imitation.training import Plan as Plan
    from alloc.learning.imitation.training import SetPolicyTraining as SetPolicyTraining
    from alloc.learning.imitation.windowed import WindowPlan as WindowPlan
    from alloc.learning.imitation.windowed import WindowTraining as WindowTraining

_LAZY = {
    "Plan": "training",
    "SetPolicy": "network",
    "SetPolicyTraining": "training",
    "WindowPlan": "windowed",
    "WindowTraining": "windowed",
    "publish": "publishing",
    "publish_window": "publishing",
}


def __getattr__(name: str) -> Any:
    """Load PyTorch only when something that needs it is asked for."""
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
