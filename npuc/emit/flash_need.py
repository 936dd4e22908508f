"""What passes flash at least once for some of the kernels: parameters, instructions and descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from isa.descriptors import LAYER
from isa.instructions import BY_MNEMONIC
from isa.record import encode_record
from isa.target import Target
from npuc.emit.kernel_need import Floats, coded_bits
from npuc.lower.kernel import Kernel
from npuc.task.fields import layer_fields
from npuc.task.origin import has_free_origin

Chosen = npt.NDArray[np.bool_]
"""[kernels]"""

_MOVED = {"ifm_height", "ifm_width", "ifm_channels", "ofm_channels"}
_PLACED = {"scales", "table", "code_table", "block_h", "block_w", "block_c"} | {
    f"{operand}_{name}" for operand in ("ofm", "ifm", "ifm2")
    for name in ("base", "pixel", "row", "block", "batch", "last_pixel", "last_row", "ring")
}  # fmt: skip
"""Descriptor fields that depend on where operands lie: where the origin says that of an operand of one pixel, and
everywhere."""


@dataclass(frozen=True)
class FlashNeed:
    """By kernel: bytes of its weights, its owner and its descriptor as numbers, bytes of its instructions; by owner and
    by descriptor: their bytes, those of the instruction that loads a descriptor included."""

    weights: Floats
    owner: npt.NDArray[np.int64]
    owner_bytes: Floats
    descriptor: npt.NDArray[np.int64]
    descriptor_bytes: Floats
    instruction_bytes: Floats

    def parameters(self, chosen: Chosen) -> float:
        """Bytes of the parameters of the chosen kernels, each once."""
        return float(self.owner_bytes[np.unique(self.owner[chosen])].sum())

    def stream(self, chosen: Chosen) -> float:
        """Bytes of their instructions and descriptors."""
        descriptors = self.descriptor_bytes[np.unique(self.descriptor[chosen])].sum()
        return float(descriptors + self.instruction_bytes[chosen].sum())


def flash_need(kernels: Sequence[Kernel], target: Target) -> FlashNeed:
    """Of all kernels, weights not coded yet."""
    lanes = target.architecture.cout_lanes
    weights = np.array([coded_bits(kernel, lanes).sum() / 8 if kernel.is_mac else 0.0 for kernel in kernels])
    place = {kernel.node: i for i, kernel in enumerate(kernels)}
    heads = np.array([float(kernel.parameters.head_bytes) if kernel.arm is None else 0.0 for kernel in kernels])
    owner = np.array([place[kernel.owner] for kernel in kernels], np.int64)
    descriptor, descriptor_bytes = _descriptors(kernels)
    instructions = np.array([_instruction_bytes(kernel) for kernel in kernels], np.float64)
    return FlashNeed(weights, owner, weights + heads, descriptor, descriptor_bytes, instructions)


def _instruction_bytes(kernel: Kernel) -> int:
    """One instruction for each batch entry and channel group."""
    if kernel.arm is not None:
        return 0
    return kernel.space[0] * max(len(kernel.groups), 1) * BY_MNEMONIC[kernel.mnemonic].length_bytes


def _descriptors(kernels: Sequence[Kernel]) -> tuple[npt.NDArray[np.int64], Floats]:
    """Number and bytes of descriptors that differ wherever operands lie; number 0 is none."""
    records = [_record(kernel) for kernel in kernels]
    fixed = {common for common, whole in records if whole}
    kept = [whole or (b"" if common in fixed else common) for common, whole in records]
    numbers = {record: i for i, record in enumerate(dict.fromkeys(chain([b""], kept)))}
    load = BY_MNEMONIC["desc.load"].length_bytes
    sizes = np.array([float(len(record) + load) if record else 0.0 for record in numbers])
    return np.array([numbers[record] for record in kept], np.int64), sizes


def _record(kernel: Kernel) -> tuple[bytes, bytes]:
    """What all descriptors of a kernel have in common: without _MOVED, and with it where the origin moves nothing."""
    if kernel.arm is not None or kernel.mnemonic == "dma.fill":
        return b"", b""
    fields = layer_fields(kernel, lambda _: 0, {}, 0, (1, 1, 8))
    kept = {name: value for name, value in fields.items() if name not in _PLACED}
    common = encode_record(LAYER, {name: value for name, value in kept.items() if name not in _MOVED}, trim=True)
    return common, b"" if has_free_origin(kernel) else encode_record(LAYER, kept, trim=True)
