"""Quadratic assignment: tabu search, bounds and branch and bound."""
