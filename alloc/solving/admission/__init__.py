"""F6: the exact method of admission, and what it answers in words."""
