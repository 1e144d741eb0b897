"""Placement heuristics: published rules for where the next gang goes."""

from alloc.schedulers.placement.fgd import Fgd as Fgd
from alloc.schedulers.placement.fitting import BestFit as BestFit
from alloc.schedulers.placement.fitting import FirstFit as FirstFit
from alloc.schedulers.placement.fitting import KaiBinPack as KaiBinPack
from alloc.schedulers.placement.fitting import RandomFit as RandomFit
from alloc.schedulers.placement.fragmentation import Fragmentation as Fragmentation
from alloc.schedulers.placement.fragmentation import Shape as Shape
from alloc.schedulers.placement.free_hosts import FreeHosts as FreeHosts
from alloc.schedulers.placement.hived import HivedCells as HivedCells
from alloc.schedulers.placement.kueue import KueueBalanced as KueueBalanced
from alloc.schedulers.placement.kueue import KueueBestFit as KueueBestFit
from alloc.schedulers.placement.plan import ExactPlan as ExactPlan
from alloc.schedulers.placement.policy import PlacementPolicy as PlacementPolicy
from alloc.schedulers.placement.policy import Request as Request
from alloc.schedulers.placement.repacking import Repacking as Repacking
