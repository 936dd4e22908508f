"""Field values of instructions and descriptors: tasks and kernels in the terms of the instruction table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isa.descriptors import LAYER
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.lower.operand import Operand
from npuc.task.task import Compute

CODE_TABLE_UNIT_BYTES = 16

Address = Callable[[str], int]
"""32-bit address of the first byte of a storage."""

_DEFAULTS = {field.name: field.bias for field in LAYER.fields if not field.is_reserved}


def layer_fields(
    kernel: Kernel, address: Address, rings: Mapping[str, int], head_address: int, block: tuple[int, int, int]
) -> dict[str, int]:
    """Every field of the kernel's layer descriptor; `head_address` is where its scales, table and operand lie."""
    parameters = kernel.parameters
    values = {**_DEFAULTS, **kernel.fields}
    for prefix, operand in kernel.described.items():
        inside = operand.storage == PARAMETERS
        base = head_address + parameters.operand_offset if inside else address(operand.storage)
        values |= operand.fields(prefix, base, 0 if inside else rings.get(operand.storage, 0))
    if kernel.ifm is not None:
        _, values["ifm_height"], values["ifm_width"], values["ifm_channels"] = kernel.ifm.shape
    values["ofm_channels"] = kernel.ofm.shape[3]
    values["scales"] = head_address if parameters.scales else 0
    values["code_table"] = len(parameters.code_table) // CODE_TABLE_UNIT_BYTES
    values["table"] = head_address + parameters.table_offset if parameters.table else 0
    values["block_h"], values["block_w"], values["block_c"] = block[0], block[1], block[2] // 8
    return values


def region_fields(task: Compute) -> dict[str, int]:
    """Fields of the issue word that name the region, without slot, weights and conditions."""
    values = {
        "n": task.n, "y": task.y.start, "x": task.x.start, "c": task.c.start,
        "height": len(task.y), "width": len(task.x), "channels": len(task.c),
    }  # fmt: skip
    if task.mnemonic.startswith("mac."):
        values |= {"k": task.k.start, "k_channels": len(task.k)}
    return values


def fill_fields(operand: Operand, task: Compute) -> dict[str, int]:
    """DMA descriptor that covers the task's region of an operand stored pixel by pixel."""
    return {
        "size_0": len(task.c), "size_1": len(task.x), "size_2": len(task.y), "size_3": 1,
        **{f"source_{i}": 0 for i in (1, 2, 3)},
        "destination_1": operand.pixel, "destination_2": operand.row, "destination_3": operand.batch,
    }  # fmt: skip


def first_byte(operand: Operand, task: Compute) -> int:
    """Byte of the storage at which the task's region of an operand begins whose channels lie side by side."""
    block, channel = divmod(task.c.start, operand.c0)
    first = operand.offset_bytes + task.n * operand.batch + task.y.start * operand.row
    return first + task.x.start * operand.pixel + block * operand.block + channel * operand.element_bytes
