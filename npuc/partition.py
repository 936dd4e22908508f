"""Partition: which unit runs each node, and why not the NPU.

The NPU runs what it has an instruction for, within its limits; what else there is a kernel for runs on the Arm core.
Whether an instruction can address its operands depends on their layouts, and these on the units, so that layouts are
assigned again until every node has found its unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from isa.descriptors import DMA, LAYER
from isa.fields import Field
from isa.instructions import BY_MNEMONIC
from isa.target import Target
from isa.timing import block_fits
from npuc.errors import DoesNotFit, InvalidGraph, NpucError, UnsupportedOp
from npuc.graph.graph import Graph, Node
from npuc.layout.assign import assign_layouts
from npuc.layout.copies import gather_operands
from npuc.layout.in_place import reuse_operands
from npuc.legalize import Reason, violation
from npuc.lower import (
    Kernel,
    delayed,
    has_arm_kernel,
    lower_node,
    lower_on_arm,
    share_parameters,
    store_nodes,
    with_stores,
)
from npuc.lower.kernel import RULES
from npuc.lower.product_on_array import product_on_array
from npuc.ops.structure import Slice
from npuc.schedule.blocks import Request, choose_blocks, work_columns
from npuc.task.fields import fill_fields, layer_fields, region_fields
from npuc.task.task import Compute

ARM, ERROR = "arm", "error"
"""What happens to nodes that the NPU cannot run: the Arm core runs them, or they are an error."""

NO_OPERATOR = "no instruction computes it"


@dataclass(frozen=True)
class Partition:
    """A placed graph, its kernels in order, and why the nodes on the Arm core are there, by name."""

    graph: Graph
    kernels: list[Kernel]
    reasons: Mapping[str, Reason]


def partition(graph: Graph, target: Target, fallback: str = ARM) -> Partition:
    """Layouts and kernels of a legalized graph.

    UnsupportedOp or DoesNotFit names all nodes that no unit runs, with `fallback` "error" all that the NPU does not.
    """
    reasons = {node.name: reason for node in graph.nodes if (reason := _refusal(graph, node, target)) is not None}
    placed = graph
    for _ in range(len(graph.nodes) + 2):
        _require_units(placed, reasons, target, fallback)
        placed = assign_layouts(graph, target.architecture.channel_block, reasons.keys())
        gathered = gather_operands(placed, reasons.keys())
        if gathered is not placed:
            graph = gathered
            continue
        placed = reuse_operands(placed, reasons.keys())
        kernels, refused = _lower(placed, target, reasons)
        if not refused:
            return Partition(placed, share_parameters(kernels), reasons)
        reasons |= refused
    raise InvalidGraph("the partition does not settle", stage="partition")


def _refusal(graph: Graph, node: Node, target: Target) -> Reason | None:
    """Why the NPU cannot run a node, wherever its operands lie."""
    if type(node.op) not in RULES:
        return Reason(NO_OPERATOR)
    if isinstance(node.op, Slice):
        steps = [chosen.step for chosen in node.op.ranges() if len(chosen) > 1]
        if min(steps, default=1) < 0:
            return Reason("slice step", min(steps), 1)
    return violation(graph, node, target)


def _lower(placed: Graph, target: Target, reasons: Mapping[str, Reason]) -> tuple[list[Kernel], dict[str, Reason]]:
    """Kernels of a placed graph, and the nodes that turn out to be none of the NPU's."""
    refused: dict[str, Reason] = {}

    def lowered(node: Node) -> list[Kernel]:
        if node.name in reasons:
            return [_on_arm(placed, node, target, reasons[node.name])]
        try:
            found = [_cheaper_unit(kernel, target) for kernel in lower_node(placed, node, target)]
        except ValueError as error:
            refused[node.name] = Reason(str(error))
            return []
        misfit = next((reason for kernel in found for reason in _misfits(kernel, target)), None)
        if misfit is not None:
            refused[node.name] = misfit
        return found

    kernels = [kernel for node in placed.nodes for kernel in lowered(node)]
    stored = with_stores(kernels, [lowered(node) for node in store_nodes(placed)])
    return delayed(stored, _kept(placed)), refused


def _cheaper_unit(kernel: Kernel, target: Target) -> Kernel:
    """A product where it takes fewer cycles: on the vector unit or, with a factor for each channel, on the array."""
    product = product_on_array(kernel)
    if product is None or any(_misfits(product, target)) or any(_misfits(kernel, target)):
        return kernel
    return min(kernel, product, key=lambda choice: _cycles_alone(choice, target))


def _cycles_alone(kernel: Kernel, target: Target) -> int:
    """Cycles of a kernel alone on the machine, while the flash reads as many bytes as it has parameters."""
    (choice,) = choose_blocks([Request(kernel, _whole(kernel))], target)
    busy = kernel.space[0] * choice.cycles
    return max(busy, kernel.parameters.n_bytes // target.board.flash_bytes_per_cycle)


def _whole(kernel: Kernel) -> Compute:
    """A kernel's last batch entry, in one instruction."""
    n, rows, pixels, channels = kernel.space
    k = range(kernel.groups[0].k, kernel.groups[0].k + kernel.groups[0].k_channels) if kernel.groups else range(1)
    return Compute(kernel.node, kernel.mnemonic, n - 1, range(rows), range(pixels), range(channels), k)


def _kept(placed: Graph) -> set[str]:
    """Storages that are live until the end: outputs, and states, whose new contents are copied to them."""
    values = (*placed.outputs, *(state.input for state in placed.states))
    layouts = ((name, placed.values[name].layout) for name in values)
    return {layout.storage if layout is not None else name for name, layout in layouts}


def _on_arm(placed: Graph, node: Node, target: Target, reason: Reason) -> Kernel:
    try:
        return lower_on_arm(placed, node, target)
    except ValueError as error:
        raise DoesNotFit(
            f"{node.op.kind} fits no unit of {target.name}: on the NPU: {reason}; on the Arm core: {error}",
            node=_title(node), stage="partition", hint="replace this operator or keep it outside the compiled model",
        ) from error  # fmt: skip


def _misfits(kernel: Kernel, target: Target) -> Iterator[Reason]:
    """What a kernel asks for beyond the fields of its instruction and descriptor, or beyond the buffers."""
    whole, (n, rows, pixels, channels) = _whole(kernel), kernel.space
    if kernel.mnemonic == "dma.fill":
        yield from _overflows(DMA.fields, fill_fields(kernel.ofm, whole))
        return
    longest = {"batch": target.limits.batch}
    for what, extent in (("batch", n), ("rows", rows), ("pixels", pixels), ("channels", channels)):
        limit = longest.get(what, target.limits.dimension)
        if extent > limit:
            yield Reason(what, extent, limit)
    yield from _overflows(LAYER.fields, layer_fields(kernel, lambda _: 0, {}, 0, (1, 1, 8)))
    yield from _overflows(BY_MNEMONIC[kernel.mnemonic].record.fields, region_fields(whole))
    if kernel.is_mac:
        smallest = replace(whole, y=range(1), x=range(1), c=range(min(channels, 8)))
        if not block_fits(work_columns(kernel, [smallest]), target).all():
            yield Reason(f"no block fits the buffers: {len(whole.k)} input channels, kernel {kernel.window.kernel}")


def _overflows(fields: Iterable[Field], values: Mapping[str, int]) -> Iterator[Reason]:
    for field in fields:
        value = values.get(field.name, field.low)
        if value > field.high:
            yield Reason(field.name, value, field.high)
        if value < field.low:
            yield Reason(field.name, value, field.low)


def _require_units(graph: Graph, reasons: Mapping[str, Reason], target: Target, fallback: str) -> None:
    """Every node has a unit that runs it."""
    refused = [node for node in graph.nodes if node.name in reasons]
    homeless = [node for node in refused if fallback == ERROR or not has_arm_kernel(node)]
    if not homeless:
        return
    if fallback == ERROR:
        what, hint = f"the NPU of {target.name} does not run", "run them on the Arm core with --fallback arm"
        rows = [f"{_title(node)} ({node.op.kind}): {reasons[node.name]}" for node in homeless]
    else:
        what, hint = f"no unit of {target.name} runs", "replace these operators or keep them outside the compiled model"
        rows = [
            f"{_title(node)} ({node.op.kind}): on the NPU: {reasons[node.name]}; on the Arm core: no kernel"
            for node in homeless
        ]
    raise _error(reasons, homeless)(f"{what} {len(homeless)} nodes: {'; '.join(rows)}", stage="partition", hint=hint)


def _error(reasons: Mapping[str, Reason], nodes: Sequence[Node]) -> type[NpucError]:
    missing = any(reasons[node.name].constraint == NO_OPERATOR for node in nodes)
    return UnsupportedOp if missing else DoesNotFit


def _title(node: Node) -> str:
    return " ".join(node.sources) or node.name
