"""Lowering: each computing node becomes a kernel, an instruction with its operands, constants and iteration space."""

from npuc.lower import conv, move, vector  # importing a rule's module registers it
from npuc.lower.arm import has_arm_kernel, lower_on_arm
from npuc.lower.kernel import Kernel, lower_node, share_parameters
from npuc.lower.order import delayed, with_stores
from npuc.lower.state import store_nodes

__all__ = [
    "Kernel", "conv", "delayed", "has_arm_kernel", "lower_node", "lower_on_arm", "move", "share_parameters",
    "store_nodes", "vector", "with_stores",
]  # fmt: skip
