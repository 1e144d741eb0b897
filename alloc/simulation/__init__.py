"""The simulator: schedulers in slots and in continuous time, checked by the judge."""

from alloc.simulation.result import SimulationResult as SimulationResult
from alloc.simulation.simulator import simulate as simulate
