"""Right-sizing: the extensive form and Benders decomposition."""
