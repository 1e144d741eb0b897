"""F2 placeholder page, written below."""

from alloc.models.malleable.data import SlotData as SlotData
from alloc.models.malleable.data import slot_data as slot_data
from alloc.models.malleable.profiles import lagrangian_bound as lagrangian_bound
