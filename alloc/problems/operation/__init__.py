"""A cluster to operate: nodes, jobs, prices over time, and the plan that answers."""
