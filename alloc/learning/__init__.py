"""Training learned schedulers, on the package's own simulator."""
