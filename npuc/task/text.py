"""The text form of a plan: what `--emit-schedule` writes, `--schedule` reads and a lock file keeps.

    npuc-schedule 1
    sram peak=51840 bound=51840 status=optimal
    buffer "conv1.out" activation bytes=16384 ring=0 at=0
    buffer "p0" parameters bytes=592 ring=0 at=16384
      part "conv1" 0:592
    buffer "conv2.out" activation bytes=2048 ring=0 window=16 at=16976
    stream "fc1"
    descriptors wait
    load "p0" 0:592
    load "p1" 0:1040 after "conv1"
    compute "conv1" mac.conv n=0 y=0:32 x=0:32 c=0:16 k=0:3 block=4x32x16
    call "log_softmax" 0

A buffer with `ring` holds that many rows at a time, one with `window` that many channels (npuc/task/windows.py).
A load with `after` waits until the kernel's tasks above it are done. With `descriptors wait` each descriptor waits for
the loads that tasks above it wait for. A `call` is one of a node's calls on the Arm core.
A schedule may be edited by hand; whatever would be out of bounds or leave an output element uncomputed is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from npuc.errors import DoesNotFit
from npuc.lower.coding import Cuts, WeightCoder
from npuc.lower.kernel import Kernel
from npuc.task.task import Buffer, BufferKind, Call, Compute, Load, Part, Plan, Task, channel_cuts
from npuc.task.windows import check_windows

HEADER = "npuc-schedule 1"
KINDS: dict[str, BufferKind] = {"activation": "activation", "parameters": "parameters"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


@dataclass(frozen=True)
class Scheduled:
    """A plan with its allocation certificate: peak, proven bound (bytes) and status."""

    plan: Plan
    peak_bytes: int
    bound_bytes: int
    status: str


def format_plan(scheduled: Scheduled) -> str:
    """Text of a placed plan; `parse_plan` reads it back."""
    lines = [HEADER, f"sram peak={scheduled.peak_bytes} bound={scheduled.bound_bytes} status={scheduled.status}"]
    for buffer in scheduled.plan.buffers:
        window = f"window={buffer.window} " if buffer.window else ""
        lines.append(
            f"buffer {json.dumps(buffer.name)} {buffer.kind} bytes={buffer.n_bytes} ring={buffer.ring_rows} "
            f"{window}at={buffer.address}"
        )
        lines += [f"  part {json.dumps(part.kernel)} {part.start}:{part.stop}" for part in buffer.parts]
    lines += [f"stream {json.dumps(name)}" for name in sorted(scheduled.plan.streamed)]
    lines += ["descriptors wait"] if scheduled.plan.descriptors_wait else []
    lines += [_format_task(task) for task in scheduled.plan.tasks]
    return "\n".join(lines) + "\n"


def _format_task(task: Task) -> str:
    if isinstance(task, Load):
        after = f" after {json.dumps(task.after)}" if task.after else ""
        return f"load {json.dumps(task.buffer)} {task.start}:{task.stop}{after}"
    if isinstance(task, Call):
        return f"call {json.dumps(task.kernel)} {task.index}"
    spans = " ".join(
        f"{axis}={span.start}:{span.stop}"
        for axis, span in (("y", task.y), ("x", task.x), ("c", task.c), ("k", task.k))
    )
    return (
        f"compute {json.dumps(task.kernel)} {task.mnemonic} n={task.n} {spans} block={'x'.join(map(str, task.block))}"
    )


def parse_plan(text: str, kernels: Sequence[Kernel]) -> Scheduled:
    """The plan that `text` describes for these kernels; DoesNotFit names the line that cannot be right."""
    lines = list(_lines(text))
    if not lines or lines[0][1] != HEADER.split():
        raise _fail(1, f"expected the header {HEADER!r}")
    raw = {kernel.node: kernel for kernel in kernels}
    by_name = _coded(lines, raw)
    buffers: list[Buffer] = []
    tasks: list[Task] = []
    streamed: set[str] = set()
    descriptors_wait = False
    certificate = {"peak": "0", "bound": "0", "status": "feasible"}
    for number, words in lines[1:]:
        with _located(number):
            match words[0]:
                case "sram":
                    certificate |= _pairs(words[1:])
                case "buffer":
                    buffers.append(_buffer(words))
                case "part":
                    buffers[-1] = replace(buffers[-1], parts=(*buffers[-1].parts, _part(words, by_name)))
                case "stream":
                    streamed.add(by_name[json.loads(words[1])].node)
                case "descriptors":
                    descriptors_wait = _descriptors(words)
                case "load":
                    tasks.append(_load(words, buffers, by_name))
                case "compute":
                    tasks.append(_compute(words, by_name))
                case "call":
                    tasks.append(_call(words, by_name))
                case _:
                    raise ValueError(f"unknown line kind {words[0]!r}")
    windows = {buffer.name: buffer.window for buffer in buffers if buffer.window}
    seen = {name: kernel.in_windows(windows) for name, kernel in by_name.items()}
    plan = Plan(seen, tuple(buffers), tuple(tasks), frozenset(streamed), descriptors_wait)
    _check_buffers(plan)
    _check_coverage(plan)
    _check_calls(plan)
    check_windows(plan, kernels)
    return Scheduled(plan, int(certificate["peak"]), int(certificate["bound"]), certificate["status"])


def _coded(lines: Sequence[tuple[int, list[str]]], raw: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """The kernels with their weights coded for the channel ranges of the schedule's tasks."""
    tasks = []
    for number, words in lines:
        if words[0] == "compute":
            with _located(number):
                tasks.append(_compute(words, raw))
    coder = WeightCoder(raw.values())
    cuts = channel_cuts(tasks)
    _check_cuts(raw, cuts)
    return {name: coder.code(name, cuts[name]) if name in cuts else kernel for name, kernel in raw.items()}


def _check_cuts(kernels: Mapping[str, Kernel], cuts: Mapping[str, Cuts]) -> None:
    for name, ranges in cuts.items():
        ends = [0, *(stop for _, stop in ranges)]
        starts = [*(start for start, _ in ranges), kernels[name].space[3]]
        if kernels[name].parameters.weights and starts != ends:
            raise DoesNotFit(
                f"{name}: the channel ranges of its tasks overlap or leave channels out",
                node=name,
                stage="schedule",
                hint="cut the channels of a kernel alike in all its tasks",
            )


@contextmanager
def _located(number: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, IndexError) as error:
        raise _fail(number, str(error)) from error


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = _TOKEN.findall(line)
        if words and not words[0].startswith("#"):
            yield number, words


def _fail(number: int, message: str) -> DoesNotFit:
    return DoesNotFit(
        f"schedule line {number}: {message}", stage="schedule", hint="write a fresh schedule with --emit-schedule"
    )


def _pairs(words: Sequence[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _span(text: str, limit: int, what: str) -> range:
    start, _, stop = text.partition(":")
    span = range(int(start), int(stop))
    if not span or span.start < 0 or span.stop > limit:
        raise ValueError(f"{what} {text} is empty or leaves 0:{limit}")
    return span


def _buffer(words: Sequence[str]) -> Buffer:
    pairs = _pairs(words[3:])
    return Buffer(
        json.loads(words[1]), KINDS[words[2]], int(pairs["bytes"]), int(pairs["ring"]), int(pairs.get("window", "0")),
        address=int(pairs["at"]),
    )  # fmt: skip


def _part(words: Sequence[str], kernels: Mapping[str, Kernel]) -> Part:
    kernel = kernels[json.loads(words[1])]
    span = _span(words[2], kernel.parameters.n_bytes, "part")
    return Part(kernel.node, span.start, span.stop)


def _descriptors(words: Sequence[str]) -> bool:
    if words[1:] != ["wait"]:
        raise ValueError(f"expected descriptors wait, found {' '.join(words)}")
    return True


def _load(words: Sequence[str], buffers: Sequence[Buffer], kernels: Mapping[str, Kernel]) -> Load:
    name = json.loads(words[1])
    buffer = next((buffer for buffer in buffers if buffer.name == name), None)
    if buffer is None or not buffer.parts:
        raise ValueError(f"{name!r} is no parameters buffer")
    span = _span(words[2], buffer.n_bytes, "load")
    if len(words) > 3 and (words[3] != "after" or len(words) != 5):
        raise ValueError(f"expected after and a kernel, found {' '.join(words[3:])}")
    after = kernels[json.loads(words[4])].node if len(words) > 3 else ""
    return Load(name, span.start, span.stop, after)


def _compute(words: Sequence[str], kernels: Mapping[str, Kernel]) -> Compute:
    kernel = kernels[json.loads(words[1])]
    if words[2] != kernel.mnemonic or kernel.arm is not None:
        raise ValueError(f"{kernel.node} runs {kernel.mnemonic}, not {words[2]}")
    pairs = _pairs(words[3:])
    n, h, w, c = kernel.space
    batch = int(pairs["n"])
    if not 0 <= batch < n:
        raise ValueError(f"n {batch} leaves 0:{n}")
    rows, pixels, channels = (int(part) for part in pairs["block"].split("x"))
    return Compute(
        kernel.node,
        kernel.mnemonic,
        batch,
        _span(pairs["y"], h, "y"),
        _span(pairs["x"], w, "x"),
        _span(pairs["c"], c, "c"),
        _span(pairs["k"], 1 << 16, "k"),
        (rows, pixels, channels),
    )


def _call(words: Sequence[str], kernels: Mapping[str, Kernel]) -> Call:
    kernel = kernels[json.loads(words[1])]
    if kernel.arm is None:
        raise ValueError(f"{kernel.node} runs {kernel.mnemonic}, not on the Arm core")
    return Call(kernel.node, int(words[2]))


def _check_calls(plan: Plan) -> None:
    """Every node on the Arm core makes its calls once and in order."""
    found: dict[str, list[int]] = {name: [] for name, kernel in plan.kernels.items() if kernel.arm is not None}
    for task in plan.tasks:
        if isinstance(task, Call):
            found[task.kernel].append(task.index)
    for name, indices in found.items():
        n_calls = plan.kernels[name].space[1]
        if indices != list(range(n_calls)):
            raise DoesNotFit(
                f"{name}: its calls are {indices}, need 0 to {n_calls - 1} in order",
                node=name,
                stage="schedule",
                hint="make every call of a node once",
            )


def _check_buffers(plan: Plan) -> None:
    for buffer in plan.buffers:
        held = sum(part.stop - part.start for part in buffer.parts)
        if buffer.address is None or buffer.address < 0 or buffer.n_bytes < held:
            raise DoesNotFit(
                f"buffer {buffer.name}: address {buffer.address}, {buffer.n_bytes} bytes for parts of {held}",
                stage="schedule",
                hint="write a fresh schedule with --emit-schedule",
            )


def _check_coverage(plan: Plan) -> None:
    """Every output element that the NPU computes is computed once: volumes add up and no two boxes meet."""
    boxes: dict[str, list[Compute]] = {name: [] for name, kernel in plan.kernels.items() if kernel.arm is None}
    for task in plan.tasks:
        if isinstance(task, Compute):
            boxes[task.kernel].append(task)
    for name, tasks in boxes.items():
        n, h, w, c = plan.kernels[name].space
        volume = sum(len(task.y) * len(task.x) * len(task.c) for task in tasks)
        if volume != n * h * w * c or any(_meet(a, b) for i, a in enumerate(tasks) for b in tasks[i + 1 :]):
            raise DoesNotFit(
                f"{name}: its tasks compute {volume} elements or some twice, its output has {n * h * w * c}",
                node=name,
                stage="schedule",
                hint="cover every output element once",
            )


def _meet(a: Compute, b: Compute) -> bool:
    pairs = ((a.y, b.y), (a.x, b.x), (a.c, b.c))
    return a.n == b.n and all(p.start < q.stop and q.start < p.stop for p, q in pairs)
