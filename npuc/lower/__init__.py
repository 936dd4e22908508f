"""Lowering: each computing node becomes a kernel, an instruction with its operands, constants and iteration space."""

from npuc.lower import conv, move, vector  # importing a rule's module registers it
from npuc.lower.kernel import Kernel, check_supported, lower
from npuc.lower.state import store_states

__all__ = ["Kernel", "check_supported", "conv", "lower", "move", "store_states", "vector"]
