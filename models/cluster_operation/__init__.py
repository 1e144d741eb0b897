"""F7 in operation: which nodes are on, and what runs where, against energy and tardiness."""
