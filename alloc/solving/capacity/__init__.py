"""Solving the problems of family F7."""
