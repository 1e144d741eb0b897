"""What is asked and what answers it, one folder a problem: types and measures, numpy only."""
