"""Scheduling policies and the state they see."""
