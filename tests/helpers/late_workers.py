"""Workers that are up: until then a search goes on alone, and leaves nothing to them."""

import threading

from alloc.solving.right_sizing.block_values import BlockValues


def wait_for_workers(values: BlockValues) -> None:
    """Wait until the workers of some blocks have started."""
    while values._others is not None and not values._are_up():
        threading.Event().wait(0.01)
