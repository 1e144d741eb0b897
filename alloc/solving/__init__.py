"""Solving an instance and certifying the answer."""
