"""F1, round allocation: its own exact method."""
