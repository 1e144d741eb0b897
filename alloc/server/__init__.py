"""The HTTP server: jobs that solve, place, compare and plan."""
