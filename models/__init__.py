"""The formulations: one file, or one folder, for each family of problems."""

if __name__ != "alloc.models":
    raise ImportError(f"{__name__!r} is alloc.models: import alloc.models, not {__name__}")
