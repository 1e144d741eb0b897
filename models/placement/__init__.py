"""F4: topology-aware gang placement."""

from alloc.models.placement.data import Group as Group
from alloc.models.placement.data import PlacementData as PlacementData
