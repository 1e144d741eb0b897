"""F2, malleable jobs: column generation, neighbourhood search, list search."""
