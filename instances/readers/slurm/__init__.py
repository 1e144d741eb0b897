"""Slurm: its accounting, its queue at a moment, and what is then left of its nodes."""
