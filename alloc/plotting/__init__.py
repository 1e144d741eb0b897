"""Figures: schedules, utilisation, completion times, gaps, convergence, topologies, training."""

from alloc.plotting.convergence import TracePoint as TracePoint
from alloc.plotting.convergence import plot_convergence as plot_convergence
from alloc.plotting.figures import inline_svg as inline_svg
from alloc.plotting.figures import new_figure as new_figure
from alloc.plotting.figures import save_figure as save_figure
from alloc.plotting.figures import svg_text as svg_text
from alloc.plotting.gantt import plot_gantt as plot_gantt
from alloc.plotting.gantt import plot_gantt_pair as plot_gantt_pair
from alloc.plotting.gaps import plot_gaps as plot_gaps
from alloc.plotting.host_type import plot_host_type as plot_host_type
from alloc.plotting.jct import plot_jct_distribution as plot_jct_distribution
from alloc.plotting.pipeline import plot_pipeline as plot_pipeline
from alloc.plotting.plans import plot_costs as plot_costs
from alloc.plotting.plans import plot_front as plot_front
from alloc.plotting.plans import plot_goals as plot_goals
from alloc.plotting.plans import plot_hosts as plot_hosts
from alloc.plotting.project import plot_project as plot_project
from alloc.plotting.topology import draw_topology as draw_topology
from alloc.plotting.topology import plot_topology as plot_topology
from alloc.plotting.utilisation import plot_utilisation as plot_utilisation
from alloc.plotting.validation import plot_validation_curve as plot_validation_curve
