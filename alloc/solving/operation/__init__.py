"""Operation: aggregation, and policies without foresight."""
