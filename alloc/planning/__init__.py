"""Capacity planning: plans, what-ifs, and plans replayed in the simulator."""
