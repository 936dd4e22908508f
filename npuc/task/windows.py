"""Channel windows: buffers that hold some channels of a storage at a time.

Channel c lies at c modulo the window's channels, in dense pixels, so a storage of C channels takes the room of a few.
Kernels that compute channel by channel run slice by slice: a slice is written whole, read, then overwritten by the
next. Where that is possible, and what a schedule by hand must keep, is said here.
"""

from __future__ import annotations

from collections.abc import Iterable

from npuc.errors import DoesNotFit
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.lower.operand import Operand
from npuc.task.task import Buffer, Compute, Plan

WIDEST = 64
"""Channels of a block that a descriptor holds at most."""


def is_channelwise(kernel: Kernel) -> bool:
    """Whether each output channel of an image follows from the same channel of its inputs."""
    return (
        kernel.spatial
        and kernel.ifm is not None
        and kernel.mnemonic != "mac.conv"
        and not kernel.fixed_channels
        and kernel.ifm.shape[3] == kernel.space[3]
    )


def operands_in(kernel: Kernel, storage: str) -> list[Operand]:
    """Its operands in a storage."""
    return [operand for operand in kernel.operands if operand.storage == storage]


def place(operand: Operand) -> tuple[int | tuple[int, ...], ...]:
    """Equal for operands whose elements lie at the same bytes."""
    strides = operand.batch, operand.row, operand.pixel, operand.block, operand.last_pixel, operand.last_row
    return operand.offset_bytes, operand.shape, *strides, operand.c0, operand.element_bytes


def window_problem(kernels: Iterable[Kernel], storage: str) -> str:
    """Why a storage cannot be held in a channel window; "" when it can."""
    found: list[Operand] = []
    for kernel in kernels:
        if kernel.arm is not None and storage in (*kernel.reads, kernel.ofm.storage):
            return f"{kernel.node} on the Arm core touches it"
        operands = operands_in(kernel, storage)
        if storage in kernel.reads and not (is_channelwise(kernel) and operands):
            return f"{kernel.node} reads all its channels at once"
        found += operands
    if not found or storage == PARAMETERS:
        return "no kernel touches it"
    if found[0].offset_bytes or found[0].shape[0] != 1 or any(place(operand) != place(found[0]) for operand in found):
        return "its kernels do not see it as one dense image"
    return ""


def window_bytes(operand: Operand, channels: int) -> int:
    """Bytes of a window of some channels of an operand."""
    _, height, width, _ = operand.shape
    return height * width * channels * operand.element_bytes


def check_windows(plan: Plan, raw: Iterable[Kernel]) -> None:
    """DoesNotFit names a channel window that cannot be, or the task that reads what is not in it.

    `raw` are the kernels before their operands are in windows.
    """
    kernels = list(raw)
    windows = {buffer.name: buffer for buffer in plan.buffers if buffer.window}
    for buffer in windows.values():
        problem = window_problem(kernels, buffer.name) or _misfit(buffer, kernels)
        if problem:
            raise _refusal(buffer, problem)
    held: dict[str, tuple[int, int]] = {}
    for task in plan.tasks:
        if isinstance(task, Compute) and windows:
            kernel = plan.kernels[task.kernel]
            for operand in (kernel.ifm, kernel.ifm2):
                if operand is not None and operand.storage in windows:
                    _check_read(windows[operand.storage], operand, task, held)
            if kernel.ofm.storage in windows:
                _write(windows[kernel.ofm.storage], task, held)


def _misfit(buffer: Buffer, kernels: Iterable[Kernel]) -> str:
    operand = next(found for kernel in kernels for found in operands_in(kernel, buffer.name))
    needed = window_bytes(operand, buffer.window)
    if buffer.window > WIDEST or buffer.window & (buffer.window - 1) or buffer.ring_rows:
        return f"{buffer.window} channels and {buffer.ring_rows} rows, allowed: a power of two up to {WIDEST}, no rows"
    return f"{buffer.n_bytes} bytes, needs {needed}" if buffer.n_bytes < needed else ""


def _slice(buffer: Buffer, task: Compute) -> int:
    first, last = task.c.start // buffer.window, (task.c.stop - 1) // buffer.window
    if first != last:
        raise _refusal(buffer, f"channels {task.c.start}:{task.c.stop} of {task.kernel} are not in one slice")
    return first


def _write(buffer: Buffer, task: Compute, held: dict[str, tuple[int, int]]) -> None:
    """`held`: for each window the slice in it, and how many of its elements have been written."""
    number = _slice(buffer, task)
    before = held.get(buffer.name, (-1, 0))
    n_before = before[1] if before[0] == number else 0
    held[buffer.name] = number, n_before + len(task.y) * len(task.x) * len(task.c)


def _check_read(buffer: Buffer, operand: Operand, task: Compute, held: dict[str, tuple[int, int]]) -> None:
    number = _slice(buffer, task)
    _, height, width, channels = operand.shape
    needed = height * width * (min((number + 1) * buffer.window, channels) - number * buffer.window)
    there, n_written = held.get(buffer.name, (-1, 0))
    if there != number or n_written < needed:
        raise _refusal(buffer, f"{task.kernel} reads channels {task.c.start}:{task.c.stop}, which are not there whole")


def _refusal(buffer: Buffer, problem: str) -> DoesNotFit:
    return DoesNotFit(
        f"channel window {buffer.name}: {problem}",
        stage="schedule",
        hint="write a fresh schedule with --emit-schedule",
    )
