"""A check for worker processes that hangs, dies or answers; alone here, to load quickly."""

import os


def misbehave(family: str, seed: int) -> int:
    """Hang at seed 1, die at seed 2, else answer."""
    while seed == 1:
        pass
    if seed == 2:
        os.abort()
    return 10 * seed
