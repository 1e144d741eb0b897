"""What the package of `third_party` announces as an objective: the steps made in a round."""

from alloc.objectives import RoundUtility

steps = RoundUtility(
    "steps", "max", "steps", "Steps made in the slot.", lambda rates, job, slot_s: rates * slot_s
)
