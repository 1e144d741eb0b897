"""Studies: benchmarks that answer one question with figures, tables and a verdict a line."""
