"""The method of F3."""
