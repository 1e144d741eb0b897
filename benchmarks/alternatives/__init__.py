"""What a user would write instead of alloc: small honest programs, timed on the same data."""
