"""Jobs on a cluster: the instance, and the allocations and schedules that answer it."""
