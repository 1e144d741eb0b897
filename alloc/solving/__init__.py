"""The engine: `solve` picks a method, the checker checks its answer, the certificate says so."""

from alloc.solving.round.method import allocate_round as allocate_round
from alloc.solving.solver import solve as solve
