"""Gymnasium environments that drive the simulator."""
