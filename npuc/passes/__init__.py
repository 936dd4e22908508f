"""Graph passes: float graph to float graph of the same meaning. The structure passes also run on integer graphs."""

from npuc.passes.common_subexpressions import common_subexpressions
from npuc.passes.compose_tables import compose_tables
from npuc.passes.eliminate_dead_code import eliminate_dead_code
from npuc.passes.expand_lstm import expand_lstm
from npuc.passes.flatten_into_conv import flatten_into_conv
from npuc.passes.fold_affine_into_conv import fold_affine_into_conv
from npuc.passes.fold_batch_norm import fold_batch_norm, lower_batch_norm
from npuc.passes.fold_pad import fold_pad_into_window
from npuc.passes.fold_quotient import fold_quotient
from npuc.passes.fold_stride_into_channels import fold_stride_into_channels
from npuc.passes.fuse_residual import fuse_residual
from npuc.passes.fuse_table import fuse_table
from npuc.passes.merge_views import merge_views
from npuc.passes.narrow_broadcast import narrow_broadcast
from npuc.passes.remove_constant_channels import remove_constant_channels
from npuc.passes.remove_identity import remove_identity
from npuc.passes.restore_names import restore_names
from npuc.passes.rule import Pass, run_passes
from npuc.passes.share_constants import share_constants
from npuc.passes.sink_views import sink_view_below_binary, sink_view_below_unary, sink_views
from npuc.passes.split_arg_max import split_arg_max

__all__ = ["GRAPH_PASSES", "HARDWARE_PASSES", "INTEGER_PASSES", "STRUCTURE_PASSES", "run_passes"]

STRUCTURE_PASSES: tuple[Pass, ...] = (
    eliminate_dead_code,
    remove_identity,
    merge_views,
    share_constants,
    common_subexpressions,
)

GRAPH_PASSES: tuple[Pass, ...] = (
    eliminate_dead_code,
    remove_identity,
    share_constants,
    common_subexpressions,
    fold_batch_norm,
    fold_affine_into_conv,
    lower_batch_norm,
    fold_affine_into_conv,
    fold_pad_into_window,
    sink_view_below_unary,
    sink_view_below_binary,
    fold_affine_into_conv,
    merge_views,
    flatten_into_conv,
    *STRUCTURE_PASSES,
    restore_names,
)

INTEGER_PASSES: tuple[Pass, ...] = (
    expand_lstm,
    *STRUCTURE_PASSES,
    fold_pad_into_window,
    compose_tables,
    fold_quotient,
    sink_views,
    compose_tables,
    narrow_broadcast,
    split_arg_max,
    *STRUCTURE_PASSES,
    fuse_table,
    fuse_residual,
)
"""What follows quantization: the machine's output stage takes over additions and tables."""

HARDWARE_PASSES: tuple[Pass, ...] = (remove_constant_channels, fold_stride_into_channels, merge_views)
"""The same network in the shape that the machine likes: what is counted as its multiplies and weights comes before."""
