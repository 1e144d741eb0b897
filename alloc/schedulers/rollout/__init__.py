"""Rollout: rounds that are priced by the future of the known jobs."""

from alloc.schedulers.rollout.scheduler import Rollout as Rollout
