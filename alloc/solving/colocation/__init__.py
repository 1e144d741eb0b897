"""Co-location: sets of jobs that share a GPU, by column generation."""
