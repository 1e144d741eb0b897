"""Readers of jobs: one's own tables and published cluster traces as instances.

Every reader returns its data together with a `ReadReport`, which accounts for each row of the file.
"""

from alloc.instances.readers.interference import (
    read_gavel_interference as read_gavel_interference,
)
from alloc.instances.readers.itp import itp_instance as itp_instance
from alloc.instances.readers.itp import read_itp as read_itp
from alloc.instances.readers.job_table import table_instance as table_instance
from alloc.instances.readers.jobs import Demand as Demand
from alloc.instances.readers.jobs import Tasks as Tasks
from alloc.instances.readers.jobs import TracedJob as TracedJob
from alloc.instances.readers.jobs import demand_of as demand_of
from alloc.instances.readers.jobs import suggest_gpus as suggest_gpus
from alloc.instances.readers.openb import Pod as Pod
from alloc.instances.readers.openb import openb_instance as openb_instance
from alloc.instances.readers.openb import read_openb_nodes as read_openb_nodes
from alloc.instances.readers.openb import read_openb_pods as read_openb_pods
from alloc.instances.readers.options import Option as Option
from alloc.instances.readers.philly import philly_instance as philly_instance
from alloc.instances.readers.philly import read_philly as read_philly
from alloc.instances.readers.philly import read_philly_machines as read_philly_machines
from alloc.instances.readers.philly import read_philly_vcs as read_philly_vcs
from alloc.instances.readers.registry import READERS as READERS
from alloc.instances.readers.registry import Reader as Reader
from alloc.instances.readers.registry import read_instance as read_instance
from alloc.instances.readers.report import ReadReport as ReadReport
from alloc.instances.readers.report import Tally as Tally
from alloc.instances.readers.requests import read_azure_llm as read_azure_llm
from alloc.instances.readers.requests import read_splitwise_option as read_splitwise_option
from alloc.instances.readers.scaling import BatchTable as BatchTable
from alloc.instances.readers.scaling import PlacementTable as PlacementTable
from alloc.instances.readers.scaling import ScalingPoint as ScalingPoint
from alloc.instances.readers.scaling import ScalingTable as ScalingTable
from alloc.instances.readers.scaling import read_elasticflow_table as read_elasticflow_table
from alloc.instances.readers.scaling import read_pollux_placements as read_pollux_placements
from alloc.instances.readers.scaling import read_scaling_tables as read_scaling_tables
from alloc.instances.readers.scaling import scaling_configurations as scaling_configurations
from alloc.instances.readers.slurm.jobs import slurm_instance as slurm_instance
from alloc.instances.readers.swf import swf_instance as swf_instance
