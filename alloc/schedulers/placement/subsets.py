"""Choosing domains: the fewest that hold a number of tasks, and of those sets the tightest."""

from __future__ import annotations

from collections.abc import Sequence


def fewest_then_tightest(room: Sequence[int], count: int) -> list[int] | None:
    """Return the positions of the smallest set with enough room, with the least room of all such.

    Exact: the sums that sets of i items can reach are the bits of an integer, so a thousand domains
    take milliseconds.

    Parameters
    ----------
    room
        Room of each domain, 0 or more.
    count
        Room needed, 0 or more.

    Returns
    -------
    list of int or None
        Increasing positions, or None when all together do not do.
    """
    total, number = 0, 0
    for size in sorted(room, reverse=True):
        if total >= count:
            break
        total, number = total + size, number + 1
    if total < count:
        return None
    # reach[k][i]: sums of i of the first k items, as bits.
    reach = [[1] + [0] * number]
    for size in room:
        before = reach[-1]
        reach.append([1] + [before[i] | before[i - 1] << size for i in range(1, number + 1)])
    above = reach[-1][number] >> count
    total = count + (above & -above).bit_length() - 1
    chosen: list[int] = []
    for k in range(len(room) - 1, -1, -1):
        if number and room[k] <= total and reach[k][number - 1] >> (total - room[k]) & 1:
            # Leaving the item out wins where both work, so that the first domains are taken.
            if reach[k][number] >> total & 1:
                continue
            chosen.append(k)
            total, number = total - room[k], number - 1
    return chosen[::-1]
