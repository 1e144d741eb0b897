"""Malleable jobs over time."""
