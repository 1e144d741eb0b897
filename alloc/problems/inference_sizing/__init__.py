"""Replicas that serve requests: pools, traffic, goals, and the plan that answers."""
