"""The questions about a cluster as it stands: place, defragment, explain."""
