"""What an instruction asks of each resource: from decoded columns and a target to `Work`, a record of int64 columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.instructions import BY_MNEMONIC, BY_OPCODE, Queue
from isa.target import Target
from isa.timing.dma import dma_work
from isa.timing.geometry import Ints
from isa.timing.mac import least_mac_work, mac_work
from isa.timing.record import Rows
from isa.timing.vector import vector_work

_COSTS = {Queue.DMA_IN: dma_work, Queue.DMA_OUT: dma_work, Queue.MAC: mac_work, Queue.VEC: vector_work}


@dataclass(frozen=True)
class Work:
    """Amounts of every instruction [n]; `first_` and `last_` amounts are parts of the totals.

    An instruction waits `lead_cycles`, moves its first load, runs its body (everything that is neither first nor
    last), then, when the next instruction of the queue may already start, its last amounts, and retires `drain_cycles`
    later. Within each of these steps all its amounts flow side by side; `pace` is one more of the body's.
    """

    compute: Ints = field(metadata={"doc": "cycles of the unit's own datapath"})
    output: Ints = field(metadata={"doc": "cycles of the output stage"})
    read_words: Ints = field(metadata={"doc": "8-byte words read from SRAM"})
    write_words: Ints = field(metadata={"doc": "8-byte words written to SRAM"})
    flash_bytes: Ints = field(metadata={"doc": "bytes read from flash, instruction stream excluded"})
    dram_bytes: Ints = field(metadata={"doc": "bytes read from and written to DRAM"})
    first_read_words: Ints = field(metadata={"doc": "SRAM words that must arrive before the first step"})
    first_flash_bytes: Ints = field(metadata={"doc": "flash bytes that must arrive before the first step"})
    first_dram_bytes: Ints = field(metadata={"doc": "DRAM bytes that must arrive before the first step"})
    last_compute: Ints = field(metadata={"doc": "datapath cycles after the last load"})
    last_output: Ints = field(metadata={"doc": "output-stage cycles after the last load"})
    last_write_words: Ints = field(metadata={"doc": "SRAM words written after the last load"})
    last_dram_bytes: Ints = field(metadata={"doc": "bytes written to DRAM after the last load"})
    pace: Ints = field(metadata={"doc": "cycles of the body, at least: when the last part begins"})
    strain_read: Ints = field(
        metadata={"doc": "1/1024 by which pace slows per part of the read port that others take, while that is little"}
    )
    strain_write: Ints = field(metadata={"doc": "the same of the write port"})
    strain_flash: Ints = field(metadata={"doc": "the same of flash"})
    strain_dram: Ints = field(metadata={"doc": "the same of DRAM"})
    full_strain_read: Ints = field(metadata={"doc": "the same of the read port, when they take all of it"})
    full_strain_write: Ints = field(metadata={"doc": "the same of the write port"})
    full_strain_flash: Ints = field(metadata={"doc": "the same of flash"})
    full_strain_dram: Ints = field(metadata={"doc": "the same of DRAM"})
    lead_cycles: Ints = field(metadata={"doc": "set-up, first-access latency and block fill"})
    drain_cycles: Ints = field(metadata={"doc": "block drain, or latency of the data in flight"})
    stream_bytes: Ints = field(metadata={"doc": "bytes of the instruction in the stream"})
    descriptor_bytes: Ints = field(metadata={"doc": "bytes that desc.load reads from flash"})
    macs: Ints = field(metadata={"doc": "multiplies that the layer needs, padding included; they take no time"})
    vector_elements: Ints = field(metadata={"doc": "what the vector unit's rates count; it takes no time"})

    def __len__(self) -> int:
        return len(self.compute)

    def with_arm(self, cycles: Ints) -> Work:
        """This work followed by one row for each call on the Arm core; `cycles` [m] in cycles of the NPU's clock."""
        empty = np.zeros_like(cycles)
        rows = {f.name: cycles if f.name == "compute" else empty for f in fields(Work)}
        return Work(**{name: np.concatenate([getattr(self, name), row]) for name, row in rows.items()})


def work_of(columns: Mapping[str, Ints], target: Target) -> Work:
    """Work of decoded instructions on `target`.

    `columns` holds `opcode` [n] and, under their names, the fields of instructions and of the descriptors that they
    captured, as values (bias added), 0 where an instruction has no such field; a column that is missing is all 0.
    IsaError names the first instruction whose blocks do not fit the buffers (`isa.timing.block_fits`).
    """
    opcode = np.asarray(columns["opcode"], np.int64)
    result = {f.name: np.zeros(len(opcode), np.int64) for f in fields(Work)}
    result["stream_bytes"] = _by_opcode(opcode, {spec.opcode: spec.length_bytes for spec in BY_OPCODE.values()})
    loads = np.flatnonzero(opcode == BY_MNEMONIC["desc.load"].opcode)
    result["descriptor_bytes"][loads] = 8 * Rows(columns, loads)("words")
    queues = queue_of(opcode)
    for queue, cost in _COSTS.items():
        index = np.flatnonzero((queues == queue) & ~_is_wait(opcode))
        if len(index):
            for name, amounts in cost(Rows(columns, index), target).items():
                result[name][index] = amounts
    return Work(**result)


def least_work_of(columns: Mapping[str, Ints], target: Target) -> Work:
    """What MAC instructions ask for at least, at a small part of the price of `work_of`; its amounts are no smaller."""
    result = {f.name: np.zeros(len(columns["opcode"]), np.int64) for f in fields(Work)}
    return Work(**(result | least_mac_work(columns, target)))


def work_of_one(mnemonic: str, values: Mapping[str, int], target: Target) -> dict[str, int]:
    """Work of one instruction, by the names of `Work`; for many candidates `work_of` on columns is far cheaper."""
    columns = {name: np.array([value], np.int64) for name, value in values.items()}
    columns["opcode"] = np.array([BY_MNEMONIC[mnemonic].opcode], np.int64)
    work = work_of(columns, target)
    return {f.name: int(getattr(work, f.name)[0]) for f in fields(Work)}


def queue_of(opcode: Ints) -> Ints:
    """Queue of each instruction [n]; IsaError for an opcode that is not in the table."""
    return _by_opcode(opcode, {spec.opcode: int(spec.queue) for spec in BY_OPCODE.values()})


def _is_wait(opcode: Ints) -> NDArray[np.bool_]:
    waits = [spec.opcode for spec in BY_OPCODE.values() if spec.mnemonic.startswith("wait.")]
    return np.isin(opcode, waits)


def _by_opcode(opcode: Ints, values: Mapping[int, int]) -> Ints:
    table = np.full(128, -1, np.int64)
    for key, value in values.items():
        table[key] = value
    result = table[opcode]
    if (result < 0).any():
        raise IsaError(f"unknown opcode {int(opcode[result < 0][0]):#x}")
    return result
