"""JSON documents: reading and writing the central types, and their published schema."""
