"""Rank mapping: candidates on a tree, and quadratic assignment."""
