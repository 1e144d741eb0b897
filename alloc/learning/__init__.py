"""Training learned schedulers, on the package's own simulator."""

from alloc.learning.export import assert_parity as assert_parity
from alloc.learning.export import export_policy as export_policy
from alloc.schedulers.learned.agent import AgentScheduler as AgentScheduler
from alloc.schedulers.learned.agent import agent_scheduler as agent_scheduler


def _register() -> None:
    """Register the environments with Gymnasium, by their names and with ``alloc/`` in front.

    Without Gymnasium nothing happens: trained policies run without it.
    """
    try:
        import gymnasium
    except ImportError:
        return

    room = "alloc.learning.environments"
    for name, single, vector in (
        ("ElasticAllocation-v0", "environment:ElasticAllocation", "elastic_vector:ElasticVector"),
        ("GangPlacement-v0", "environment:GangPlacement", None),
    ):
        for full in (f"alloc/{name}", name):
            if full not in gymnasium.registry:
                gymnasium.register(
                    full,
                    entry_point=f"{room}.{single}",
                    vector_entry_point=None if vector is None else f"{room}.{vector}",
                )


_register()
