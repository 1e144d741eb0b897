"""Pipelines: the layers of a model, the devices in a row, and which stage each device runs."""
