"""Descriptors of tasks that compute one pixel: operands are found through the instruction's origin.

A task whose output is one pixel leaves the batch entry, the row and the pixel of its origin free. Each operand takes
one of these axes for itself: with a stride of one or eight bytes on it, and none on the others, the coordinate is the
operand's address, and the descriptor no longer says where the operand lies. So all time steps of a recurrent layer use
the descriptors of one, wherever their operands are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from isa.descriptors import Memory, split_address
from npuc.lower.kernel import POINT, Kernel
from npuc.task.task import Compute, Plan

AXES = (("ofm", "x", "pixel", 1 << 15, 1), ("ifm", "y", "row", 1 << 15, 1), ("ifm2", "n", "batch", 1 << 11, 8))
"""Operand, its coordinate, the axis that this moves along, how many coordinates are used, and the stride in bytes."""

SAME_PLACE = {"mac.conv", "vec.add", "vec.sub", "vec.mul", "vec.table", "vec.sigmoid", "vec.tanh", "vec.copy"}
"""Instructions that read where they write, with a window of one tap."""

Record = Mapping[str, int]


def has_free_origin(kernel: Kernel) -> bool:
    """Whether the kernel computes one pixel from the same pixel of its inputs."""
    operands = [operand for operand in (kernel.ofm, kernel.ifm, kernel.ifm2) if operand is not None]
    return (
        kernel.mnemonic in SAME_PLACE
        and kernel.window == POINT
        and kernel.ofm.storage not in kernel.reads  # operands that share bytes must be seen to lie at the same place
        and all(operand.shape[:3] == (1, 1, 1) for operand in operands)
        and not any(operand.last_pixel or operand.last_row for operand in operands)
    )


def placed_by_origin(record: Record, *, is_vector: bool) -> tuple[Record, Record]:
    """A descriptor of such a kernel without the places of its operands, and the origin that finds them.

    That of a vector instruction does not keep the number of channels either: it only decides where a ragged last block
    has strides of its own, and here it has none.
    """
    fields, origin = dict(record), {}
    for prefix, axis, name, limit, stride in AXES:
        fields |= {f"{prefix}_{name}": 0 for _, _, name, *_ in AXES}
        memory, offset = split_address(record[f"{prefix}_base"])
        if memory == Memory.SRAM:
            origin[axis] = offset // stride % limit
            fields[f"{prefix}_base"] = record[f"{prefix}_base"] - origin[axis] * stride
            fields[f"{prefix}_{name}"] = stride
    fields["ifm_height"] = fields["ifm_width"] = 1 << 15
    if is_vector:
        fields |= {"ifm_channels": 1 << 15, "ofm_channels": 1 << 15, "block_h": 1, "block_w": 1, "block_c": 1}
    return fields, origin


Key = tuple[str, tuple[int, int, int]]
"""Kernel and block shape of a descriptor."""


def shared_records(plan: Plan, record_of: Callable[[Kernel, Compute], Record]) -> dict[Key, tuple[Record, Record]]:
    """The descriptors of a plan that become one with another in this way: descriptor and origin by kernel and block.

    `record_of` is what the descriptor of a task is otherwise; it stays so where there is nothing to share. Those of
    kernels with parameters of their own in flash are never equal.
    """
    moved: dict[Key, tuple[Record, Record, Record]] = {}
    free = {name for name, kernel in plan.kernels.items() if kernel.arm is None and has_free_origin(kernel)}
    for task in plan.tasks:
        if isinstance(task, Compute) and task.kernel in free and (task.kernel, task.block) not in moved:
            record = record_of(plan.kernels[task.kernel], task)
            if not any(record[f"{prefix}_ring"] for prefix, *_ in AXES):
                moved[task.kernel, task.block] = (
                    record,
                    *placed_by_origin(record, is_vector=not plan.kernels[task.kernel].is_mac),
                )
    alike: dict[Hashable, set[tuple[int, ...]]] = {}
    content = {key: (*fields.values(), _flash_owner(plan, key[0])) for key, (_, fields, _) in moved.items()}
    for key, (record, _, _) in moved.items():
        alike.setdefault(content[key], set()).add(tuple(record.values()))
    return {key: (fields, origin) for key, (_, fields, origin) in moved.items() if len(alike[content[key]]) > 1}


def _flash_owner(plan: Plan, name: str) -> str:
    kernel = plan.kernels[name]
    return kernel.owner if plan.is_streamed(kernel) else ""
