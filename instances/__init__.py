"""Stored instances, generators and trace readers."""

if __name__ != "alloc.instances":
    raise ImportError(f"{__name__!r} is alloc.instances: import alloc.instances, not {__name__}")
