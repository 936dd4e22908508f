"""What a compilation says about its program: memory certificate, cycles and bound, flash bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isa.target import Target
from isa.timing import Timeline, Work, energy_report
from npuc.emit.certificate import Certificate
from npuc.emit.demand import Demand
from npuc.emit.stream import Stream
from npuc.graph.graph import Graph
from npuc.layout.trans_data import TransData
from npuc.lock import tool_version
from npuc.lower.kernel import Kernel
from npuc.partition import Partition
from npuc.task.text import Scheduled


def compile_report(
    parted: Partition,
    scheduled: Scheduled,
    stream: Stream,
    timeline: Timeline,
    work: Work,
    target: Target,
    n_program_bytes: int,
    demand: Demand,
    certificate: Certificate,
) -> dict[str, Any]:
    """The keys of `compile --json`, without what the command line adds."""
    graph, kernels = parted.graph, scheduled.plan.kernels.values()
    macs = sum(kernel.macs for kernel in kernels)
    read = int(work.descriptor_bytes.sum()) + len(stream.code)
    offchip = int(work.flash_bytes.sum() + work.dram_bytes.sum()) + read
    return {
        "target": target.name,
        "sram": {
            "peak_bytes": scheduled.peak_bytes, "bound_bytes": scheduled.bound_bytes, "status": scheduled.status,
            "gap_bytes": scheduled.peak_bytes - scheduled.bound_bytes,
        },
        "cycles": {"predicted": timeline.total_cycles, "arm": arm_cycles(kernels),
                   "bound": demand.bound_cycles, "lower_bound": certificate.cycles,
                   "lower_bound_by": certificate.resource},
        "flash": {
            "program_bytes": n_program_bytes, "weights_bytes": stored_weight_bytes(kernels),
            "weights_raw_bytes": demand.weights_bytes, "offchip_bytes": offchip, "offchip_stream_bytes": read,
            "stream_bytes": stream.overhead_bytes,
        },
        "energy": energy_report(work, timeline.total_cycles, target),
        "macs": demand.macs,
        "npu_mac_share": sum(kernel.macs for kernel in kernels if kernel.arm is None) / macs if macs else 1.0,
        "arm_nodes": arm_rows(parted, kernels),
        "transdata_count": sum(isinstance(node.op, TransData) for node in graph.nodes),
    }  # fmt: skip


def stored_weight_bytes(kernels: Iterable[Kernel]) -> int:
    """Bytes that the weights take in flash, their code tables included."""
    own = [kernel.parameters for kernel in kernels if not kernel.shares]
    return sum(len(parameters.weights) + len(parameters.code_table) for parameters in own)


def arm_cycles(kernels: Iterable[Kernel]) -> int:
    """Cycles of all calls of the Arm core, on the NPU's clock."""
    return sum(sum(kernel.arm.cycles) for kernel in kernels if kernel.arm is not None)


def arm_rows(parted: Partition, kernels: Iterable[Kernel]) -> list[dict[str, Any]]:
    """The nodes on the Arm core, why they are there, and what they cost."""
    rows = []
    for kernel in kernels:
        if kernel.arm is not None:
            reason = parted.reasons[kernel.node]
            rows.append({
                "node": kernel.node, "op": kernel.arm.op.kind, "sources": list(kernel.sources), "reason": str(reason),
                "constraint": reason.constraint, "value": reason.value, "limit": reason.limit,
                "cycles": sum(kernel.arm.cycles),
            })  # fmt: skip
    return rows


def program_metadata(
    graph: Graph, scheduled: Scheduled, timeline: Timeline, demand: Demand, certificate: Certificate
) -> dict[str, Any]:
    """What the container records beside the target's tables."""
    return {
        "tool": tool_version(),
        "model": graph.name,
        "sram_peak_bytes": scheduled.peak_bytes,
        "sram_bound_bytes": scheduled.bound_bytes,
        "sram_status": scheduled.status,
        "cycles": timeline.total_cycles,
        "arm_cycles": arm_cycles(scheduled.plan.kernels.values()),
        "bound_cycles": demand.bound_cycles,
        "lower_bound_cycles": certificate.cycles,
        "macs": demand.macs,
        "transdata_count": sum(isinstance(node.op, TransData) for node in graph.nodes),
    }
