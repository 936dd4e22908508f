"""SRAM allocation: buffers with live ranges in, addresses with a proven bound of the peak out."""

from npuc.allocation.allocate import allocate
from npuc.allocation.alternatives import optimal_placements
from npuc.allocation.csv_format import read_offsets, read_problem, write_csv
from npuc.allocation.live import live_at_peak
from npuc.allocation.placement import CapacityExceeded, Placement
from npuc.allocation.problem import Buffer, InvalidProblem, Problem
from npuc.allocation.validate import InvalidPlacement, validate_placement

__all__ = [
    "Buffer",
    "CapacityExceeded",
    "InvalidPlacement",
    "InvalidProblem",
    "Placement",
    "Problem",
    "allocate",
    "live_at_peak",
    "optimal_placements",
    "read_offsets",
    "read_problem",
    "validate_placement",
    "write_csv",
]
