"""The pipeline on one screen: model -> graph -> integer graph -> layouts -> kernels -> plan -> program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration import QuantTable
from isa.target import Energy, Target
from isa.target_file import target_to_dict
from npuc.emit.arm import emit_calls
from npuc.emit.certificate import certify_cycles
from npuc.emit.demand import demand_of
from npuc.emit.judge import stream_timeline, stream_work
from npuc.emit.plan_judge import Judge
from npuc.emit.program import debug_map, write_program
from npuc.emit.report import compile_report, program_metadata
from npuc.emit.stream import emit_stream
from npuc.errors import DoesNotFit, UsageError
from npuc.graph.graph import Graph
from npuc.graph.serialize import graph_to_bytes
from npuc.graph.types import Host
from npuc.legalize import legalize
from npuc.lock import Lock, LockError, check_lock, make_lock
from npuc.lower import Kernel
from npuc.partition import ARM, Partition, partition
from npuc.passes import GRAPH_PASSES, HARDWARE_PASSES, INTEGER_PASSES, run_passes
from npuc.passes.rule import Misses
from npuc.schedule import storages_of
from npuc.schedule.policy import POLICIES, SEARCH
from npuc.task.text import Scheduled, format_plan, parse_plan

if TYPE_CHECKING:
    from npuc.schedule.plan import Search

OnPass = Callable[[str, Graph], None]

ENERGY = "energy"
"""What `Options.optimize` is when picojoules are to be few."""


@dataclass(frozen=True)
class Options:
    """What the user chose: the target, the SRAM to use (bytes; None: the board's), what to optimize for.

    `schedule` is the text of a hand-edited schedule, `lock` the decisions of an earlier compilation; either replaces
    the search. `cycles` asks for the smallest SRAM that takes no more. `policy` names what a schedule may do
    (npuc/schedule/policy.py), `fallback` what becomes of nodes that the NPU cannot run (npuc/partition.py). `strip`
    leaves the reference graph out of the program.
    """

    target: Target
    sram_bytes: int | None = None
    optimize: str = "latency"
    schedule: str | None = None
    lock: Lock | None = None
    cycles: int | None = None
    policy: str = SEARCH.name
    fallback: str = ARM
    strip: bool = False
    on_pass: OnPass | None = None


@dataclass(frozen=True)
class Compiled:
    """The program and what is worth knowing about it: debug map, report, lock and schedule text."""

    program: bytes
    debug_map: dict[str, Any]
    report: dict[str, Any]
    lock: Lock
    schedule: str


def import_model(path: Path, shapes: Mapping[str, tuple[int, ...]], on_pass: OnPass | None = None) -> Graph:
    """Graph of a model file: float for ONNX, integer for TFLite; `shapes` bind symbolic dimensions by input name."""
    if path.suffix == ".tflite":
        from npuc.importer.tflite import import_tflite

        return _seen(on_pass, "import", import_tflite(path.read_bytes(), path.stem))
    from npuc.importer.onnx import import_onnx

    imported = _seen(on_pass, "import", import_onnx(path, shapes))
    return run_passes(imported, GRAPH_PASSES, _listener(on_pass))


def compile_model(graph: Graph, table: QuantTable | None, options: Options) -> Compiled:
    """Program of a float graph with its quantization table, or of an integer graph without one."""
    target = options.target
    integer, fused, parted = _lowered(graph, table, options)
    placed, kernels = parted.graph, parted.kernels
    reference = graph_to_bytes(integer)
    text = _decide(placed, kernels, reference, options)
    scheduled = _parsed(text, kernels, options)
    stream = emit_stream(scheduled.plan, target)
    calls = emit_calls(scheduled.plan, stream)
    timeline, work = stream_timeline(stream, target), stream_work(stream, target)
    budget = max(options.sram_bytes or target.board.sram_bytes, scheduled.peak_bytes)
    demand, certificate = demand_of(fused, target), certify_cycles(kernels, target, budget)
    metadata = program_metadata(placed, scheduled, timeline, demand, certificate)
    program = write_program(
        placed,
        scheduled.plan,
        stream,
        calls,
        target,
        metadata,
        b"" if options.strip else reference,
    )
    return Compiled(
        program, debug_map(placed, scheduled.plan, stream, calls),
        compile_report(parted, scheduled, stream, timeline, work, target, len(program), demand, certificate),
        _lock(text, reference, options), text,
    )  # fmt: skip


def sram_cycles_front(graph: Graph, table: QuantTable | None, options: Options) -> list[tuple[int, int]]:
    """(SRAM bytes, cycles) of the programs that no other found beats in both, smallest first; options as for
    `compile_model`, which finds each of them again within its SRAM."""
    from npuc.schedule.plan import front

    parted = _lowered(graph, table, options)[2]
    search = _search(parted.graph, parted.kernels, replace(options, optimize="latency"))
    return [(found.sram_bytes, found.cost) for found in front(search)]


def _lowered(graph: Graph, table: QuantTable | None, options: Options) -> tuple[Graph, Graph, Partition]:
    """The integer graph, the same with operators fused, and kernels for both units."""
    integer = _seen(options.on_pass, "quantize", quantized(graph, table))
    fused = run_passes(integer, INTEGER_PASSES, _listener(options.on_pass))
    shaped = run_passes(fused, HARDWARE_PASSES, _listener(options.on_pass))
    legal = _seen(options.on_pass, "legalize", legalize(shaped, options.target))
    parted = partition(legal, options.target, options.fallback)
    _seen(options.on_pass, "layout", parted.graph)
    return integer, fused, parted


def quantized(graph: Graph, table: QuantTable | None) -> Graph:
    """The integer graph: `graph` itself when it is one already; the host goes on to see floats."""
    if table is None:
        return graph
    from npuc.ptq.quantize import quantize

    return replace(quantize(graph, table), host=dict.fromkeys((*graph.inputs, *graph.outputs), Host(half_even=True)))


def _decide(graph: Graph, kernels: list[Kernel], reference: bytes, options: Options) -> str:
    """Text of the schedule: the user's, the lock's, or the best that a search finds."""
    if options.schedule is not None:
        return options.schedule
    if options.lock is not None:
        check_lock(options.lock, _lock("", reference, options))
        return options.lock.schedule
    if options.cycles is not None and options.optimize == ENERGY:
        raise UsageError("--cycles asks for the least sram, --optimize energy for the least energy",
                         hint="give one of them")  # fmt: skip
    from npuc.schedule.plan import schedule  # compiling from a lock file loads no solver

    return format_plan(schedule(_search(graph, kernels, options), options.optimize, options.cycles))


def _parsed(text: str, kernels: list[Kernel], options: Options) -> Scheduled:
    """The schedule of a text; LockError when it is a lock's and does not fit the kernels."""
    try:
        return parse_plan(text, kernels)
    except DoesNotFit as error:
        if options.lock is None or options.schedule is not None:
            raise
        raise LockError(f"the lock file does not fit what is compiled: {error.message}", stage="lock",
                        hint="search again with --update-lock") from error  # fmt: skip


def _search(graph: Graph, kernels: list[Kernel], options: Options) -> Search:
    from npuc.schedule.plan import Search

    target = options.target
    capacity = options.sram_bytes if options.sram_bytes is not None else target.board.sram_bytes
    storages, policy = storages_of(graph, kernels), POLICIES[options.policy]
    judge, energy = Judge(target), require_energy(target) if options.optimize == ENERGY else None
    cost = judge.cycles if energy is None else lambda plan: judge.picojoules(plan, energy)
    return Search(kernels, storages, target, capacity, cost, policy, energy)


def require_energy(target: Target) -> Energy:
    """The energy table of a target; UsageError when it has none."""
    if target.energy is None:
        raise UsageError(
            f"target {target.name} has no table [energy], which --optimize energy needs",
            hint="add one to its file (docs/targets.md has values), or optimize for latency or memory",
        )
    return target.energy


def _lock(schedule: str, reference: bytes, options: Options) -> Lock:
    chosen = {"sram_bytes": options.sram_bytes, "optimize": options.optimize, "cycles": options.cycles,
              "policy": options.policy, "fallback": options.fallback}
    return make_lock(schedule, reference, target_to_dict(options.target), chosen)


def _listener(on_pass: OnPass | None) -> Callable[[str, Graph, Misses], None]:
    def listen(name: str, graph: Graph, misses: Misses) -> None:
        _seen(on_pass, name, graph)

    return listen


def _seen(on_pass: OnPass | None, stage: str, graph: Graph) -> Graph:
    if on_pass is not None:
        on_pass(stage, graph)
    return graph
