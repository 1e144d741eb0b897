"""Adapters: one per solver, each loading its solver only when it is used."""
