"""Projects: rules that put activities in one after the other, and CP-SAT with a proof."""
