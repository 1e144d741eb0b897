"""Comparisons: schedulers × instances × seeds, against the certified bound."""

from alloc.comparison.bounds import Bound as Bound
from alloc.comparison.cells import Cell as Cell
from alloc.comparison.comparison import Comparison as Comparison
from alloc.comparison.experiment import CellEvent as CellEvent
from alloc.comparison.experiment import compare as compare
from alloc.comparison.intervals import Interval as Interval
from alloc.comparison.intervals import mean_interval as mean_interval
from alloc.comparison.rows import Row as Row
from alloc.comparison.settings import Entry as Entry
from alloc.comparison.settings import Settings as Settings
from alloc.comparison.store import Store as Store
from alloc.comparison.store import StoreError as StoreError
from alloc.comparison.summaries import Summary as Summary
