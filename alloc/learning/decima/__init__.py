"""A Decima agent: a network over graphs of stages, trained by reward, and a tree of its ways."""
