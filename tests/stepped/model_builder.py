"""Builds the plan of a program: decode, replay of the descriptor table, steps of every instruction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isa.codec import DecodedProgram, decode_program
from isa.descriptors import Memory, split_address
from isa.instructions import BY_OPCODE, Queue
from isa.record import WORD_BYTES, decode_record
from isa.target import Target
from tests.stepped.model_access import WORD
from tests.stepped.model_mac import Mac, add_mac
from tests.stepped.model_plan import RESOURCES, STREAMS, UNITS, Ints, Plan, bases, stacked
from tests.stepped.model_stream import add_dma, add_vector
from tests.stepped.model_unit import BLOCKS, JOBS, STEPS, UnitRows

INSTRUCTION = ("lead", "drain", "write_delay", "write_resource", "issue_step", "end_step", "end_block")
WIDE = {"resource": STREAMS, "end_job": STREAMS, "end_write": RESOURCES}


def build_plan(instructions: bytes, flash: bytes, target: Target) -> Plan:
    """The plan of a program; `flash` holds its descriptors at the addresses that desc.load names."""
    code = decode_program(instructions)
    units = [UnitRows(target.board.sram_shared_port) for _ in range(UNITS)]
    rows = {name: np.zeros(len(code), np.int64) for name in (*INSTRUCTION, "descriptor_bytes")}
    wide = {name: np.zeros((len(code), width), np.int64) for name, width in WIDE.items()}
    slots: dict[int, bytes] = {}
    for i in range(len(code)):
        spec = BY_OPCODE[int(code.opcode[i])]
        values = {field.name: int(code.fields[field.name][i]) for field in spec.fields if field.name in code.fields}
        if spec.mnemonic == "desc.load":
            length = values["words"] * WORD_BYTES
            _, start = split_address(values["address"])
            slots[values["slot"]] = flash[start : start + length]
            rows["descriptor_bytes"][i] = length
        if spec.queue is Queue.FETCH:
            continue
        record = decode_record(spec.descriptor, slots[values["slot"]]) if spec.descriptor else {}
        _add_instruction(units[spec.queue], i, spec.mnemonic, values, record, target, rows, wide)
    return _assemble(code, units, rows, wide, target)


def _add_instruction(
    unit: UnitRows,
    i: int,
    mnemonic: str,
    values: Mapping[str, int],
    record: Mapping[str, int],
    target: Target,
    rows: dict[str, Ints],
    wide: dict[str, Ints],
) -> None:
    """Its steps, and its row of times and of where its steps end."""
    board, costs = target.board, target.costs
    latency = {
        Memory.SRAM: board.sram_latency_cycles,
        Memory.FLASH: board.flash_latency_cycles,
        Memory.DRAM: board.dram_latency_cycles,
    }
    if mnemonic.startswith("mac."):
        mac = Mac(i, values, record, target, mnemonic == "mac.depthwise")
        wide["resource"][i], rows["write_resource"][i] = add_mac(unit, mac)
        sources = (split_address(value)[0] for value in (record["ifm_base"], values["weights"]))
        rows["lead"][i] = max(latency[memory] for memory in sources) + costs.block_fill_cycles
        rows["drain"][i] = costs.block_drain_cycles
        rows["issue_step"][i] = unit.steps.n - 1
    elif mnemonic.startswith("vec."):
        wide["resource"][i], rows["write_resource"][i] = add_vector(unit, i, mnemonic, values, record, target)
        rows["write_delay"][i] = latency[split_address(record["ifm_base"])[0]]
    elif mnemonic.startswith("dma."):
        wide["resource"][i], rows["write_resource"][i] = add_dma(unit, i, mnemonic, values, record)
        rows["lead"][i] = costs.dma_setup_cycles
        rows["write_delay"][i] = 0 if mnemonic == "dma.fill" else latency[split_address(values["source"])[0]]
    if not mnemonic.startswith("mac."):
        rows["issue_step"][i] = unit.issued if mnemonic.startswith("wait.") else unit.steps.n
    unit.issued = int(rows["issue_step"][i])
    rows["end_step"][i] = unit.steps.n
    rows["end_block"][i] = unit.blocks.n
    wide["end_job"][i] = [jobs.n for jobs in unit.jobs]
    wide["end_write"][i] = unit.written


def _assemble(
    code: DecodedProgram, units: list[UnitRows], rows: dict[str, Ints], wide: dict[str, Ints], target: Target
) -> Plan:
    board, costs = target.board, target.costs
    steps = [unit.steps for unit in units]
    jobs = [jobs for unit in units for jobs in unit.jobs]
    blocks = [unit.blocks for unit in units]
    columns = {name: stacked(steps, name) for name in STEPS} | {name: stacked(jobs, name) for name in JOBS}
    columns |= {name: stacked(blocks, name) for name in BLOCKS if not name.startswith("block_jobs")}
    block_jobs = np.stack([stacked(blocks, f"block_jobs{i}") for i in range(STREAMS)], axis=1)
    order = np.argsort(code.queue, kind="stable").astype(np.int64)
    ports = (board.sram_read_bytes_per_cycle // WORD, board.sram_write_bytes_per_cycle // WORD)
    memories = (board.flash_bytes_per_cycle, board.dram_bytes_per_cycle)
    plan = Plan(
        queue=code.queue.astype(np.int64),
        offset_end=code.offset + code.length,
        condition_queue=np.concatenate([code.wait_queue, code.more_queue], axis=1).astype(np.int64),
        condition_count=np.concatenate([code.wait_count, code.more_count], axis=1).astype(np.int64),
        **rows,
        **wide,
        order=order,
        order_base=np.searchsorted(code.queue[order], np.arange(UNITS + 1)).astype(np.int64),
        step_base=bases(steps),
        **columns,
        job_base=bases(jobs).reshape(UNITS, STREAMS),
        block_end_elements=np.cumsum(columns["block_elements"]),
        block_jobs=block_jobs,
        capacity=np.array([*ports, *memories], np.int64),
        stage=np.array([costs.output_stage.numerator, costs.output_stage.denominator], np.int64),
        fetch=np.array(
            [board.flash_latency_cycles, costs.dispatch_cycles, costs.queue_depth, costs.prefetch_bytes], np.int64
        ),
    )
    return Plan._make(np.array(array, np.int64, order="C") for array in plan)
