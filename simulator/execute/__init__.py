"""What each instruction does. A *binder* turns one instruction into a step that only moves and computes bytes.

Binders run once, in program order: they decode, check and bind every access to memory. Steps run on every inference.
"""

from __future__ import annotations

from collections.abc import Mapping

from simulator.execute import dma, elementwise, mac, pooling, softmax
from simulator.execute.binding import Binder, Binding, Step, Workspace

BINDERS: Mapping[str, Binder] = {
    **dma.BINDERS,
    **mac.BINDERS,
    **elementwise.BINDERS,
    **pooling.BINDERS,
    **softmax.BINDERS,
}
"""Binder of every instruction that touches memory, by mnemonic."""

__all__ = ["BINDERS", "Binder", "Binding", "Step", "Workspace"]
