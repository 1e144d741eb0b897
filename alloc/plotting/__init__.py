"""Gantt charts, utilisation and performance profiles."""
