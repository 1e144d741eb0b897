"""The simulator: schedulers in slots and in continuous time; the checker checks its schedules."""

from alloc.simulation.metrics import Metrics as Metrics
from alloc.simulation.metrics import completion_times_s as completion_times_s
from alloc.simulation.metrics import finish_time_fairness as finish_time_fairness
from alloc.simulation.metrics import metrics_of as metrics_of
from alloc.simulation.metrics import utilisation as utilisation
from alloc.simulation.result import SimulationResult as SimulationResult
from alloc.simulation.result import gpus_over_time as gpus_over_time
from alloc.simulation.simulator import Simulation as Simulation
from alloc.simulation.simulator import simulate as simulate
