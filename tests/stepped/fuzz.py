"""Random legal programs: every instruction, layout and kind of condition; a seed and a target give one program.

A condition names instructions that come earlier in the program, so that no program can deadlock. Data are not modelled:
instructions may overlap in memory, which no timing depends on.
"""

from __future__ import annotations

import numpy as np

from isa.codec import Instruction, encode, encode_record
from isa.container import CONSTANTS_OFFSET, Container, descriptors_offset, write_container
from isa.descriptors import Memory, address
from isa.instructions import BY_MNEMONIC, NO_CONDITION, Queue
from isa.target import Target
from tests.stepped.fuzz_layer import FLASH_BYTES, Draw, Values, output_size, random_layer

QUEUES = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC)

WEIGHTS = {"dma.load": 4, "dma.load4": 2, "dma.store": 1, "dma.store4": 1, "dma.fill": 1, "mac.conv": 8,
           "mac.depthwise": 4, "vec.add": 2, "vec.sub": 1, "vec.mul": 1, "vec.table": 1, "vec.sigmoid": 1,
           "vec.tanh": 1, "vec.maxpool": 2, "vec.avgpool": 1, "vec.mean": 1, "vec.softmax": 1, "vec.resize": 1,
           "vec.bilinear": 1, "vec.copy": 2}  # fmt: skip
"""How often each instruction is drawn."""

CONSTANT_BYTES = FLASH_BYTES - CONSTANTS_OFFSET


MAC_KINDS = tuple(kind for kind in WEIGHTS if kind.startswith("mac."))
STREAM_KINDS = tuple(kind for kind in WEIGHTS if not kind.startswith("mac."))


def random_program(seed: int, target: Target, kinds: tuple[str, ...] = tuple(WEIGHTS), n_layers: int = 12) -> bytes:
    """A container whose instructions, all of `kinds`, come in groups of one to six that share a descriptor."""
    draw = Draw(np.random.default_rng(seed), target)
    writer = _Writer(draw)
    shares = np.array([WEIGHTS[kind] for kind in kinds]) / sum(WEIGHTS[kind] for kind in kinds)
    for _ in range(n_layers):
        writer.group(kinds[int(draw.rng.choice(len(kinds), p=shares))])
    return writer.container()


class _Writer:
    """Code and descriptors as they grow; counts what each queue has been given."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.code = b""
        self.descriptors = b""
        self.issued = dict.fromkeys(QUEUES, 0)

    def group(self, mnemonic: str) -> None:
        """Instructions of one kind, with the descriptor they share, now and then behind a `wait`."""
        draw = self.draw
        spec = BY_MNEMONIC[mnemonic]
        if draw.is_true(0.15):
            self._emit(f"wait.{spec.queue.name.lower().replace('_', '-')}", self._conditions("more", 0.7))
        slot: Values = {}
        descriptor: Values = {}
        if spec.descriptor is not None:
            is_copy = mnemonic.startswith("dma.")
            descriptor = self._copy_descriptor() if is_copy else random_layer(draw, mnemonic)
            slot = self._load(encode_record(spec.descriptor, descriptor, trim=True))
        for _ in range(draw.number(1, 6)):
            if mnemonic.startswith("dma."):
                values = self._copy(mnemonic)
            else:
                values = self._region(mnemonic, descriptor)
            self._emit(mnemonic, {**slot, **values})

    def container(self) -> bytes:
        self._emit("end", {})
        target = self.draw.target
        return write_container(
            Container(
                target_name=target.name,
                fingerprint=target.fingerprint,
                constants=bytes(CONSTANT_BYTES),
                descriptors=self.descriptors,
                instructions=self.code,
                io=(),
            )
        )

    def _emit(self, mnemonic: str, values: Values) -> None:
        spec = BY_MNEMONIC[mnemonic]
        self.code += encode(Instruction(mnemonic, {**values, **self._conditions("wait", 0.25)}))
        if spec.queue is not Queue.FETCH:
            self.issued[spec.queue] += 1

    def _conditions(self, prefix: str, share: float) -> Values:
        """Conditions on instructions that have been written; most of them on recent ones."""
        values = {}
        for i in range(3):
            queue = QUEUES[self.draw.number(0, 3)]
            count = max(0, self.issued[queue] - self.draw.one(0, 0, 1, 2, 5))
            is_used = self.draw.is_true(share) and count > 0
            values[f"{prefix}{i}_queue"] = int(queue) if is_used else NO_CONDITION
            values[f"{prefix}{i}_count"] = count if is_used else 0
        return values

    def _load(self, data: bytes) -> Values:
        slot = {"slot": self.draw.number(0, 31)}
        first = descriptors_offset(CONSTANT_BYTES) + len(self.descriptors)
        self.descriptors += data
        self._emit("desc.load", {**slot, "words": len(data) // 8, "address": address(Memory.FLASH, first)})
        return slot

    def _copy_descriptor(self) -> Values:
        draw = self.draw
        run = draw.one(draw.number(1, 40), 8 * draw.number(1, 32))
        v = {"size_0": run, "size_1": draw.number(1, 24), "size_2": draw.number(1, 6), "size_3": draw.number(1, 2)}
        for side in ("source", "destination"):
            first = run + draw.one(0, draw.number(0, 24))
            v |= {f"{side}_1": first, f"{side}_2": first * v["size_1"], f"{side}_3": first * v["size_1"] * v["size_2"]}
        return v

    def _copy(self, mnemonic: str) -> Values:
        draw = self.draw
        has_dram = draw.target.architecture.has_dram
        other = Memory.DRAM if has_dram and draw.is_true(0.4) else Memory.FLASH
        if mnemonic.startswith("dma.load"):
            values = {"source": draw.place(other, draw.one(1, 8)), "destination": draw.place(Memory.SRAM, 8)}
        else:
            to = Memory.DRAM if has_dram and draw.is_true(0.4) else Memory.SRAM
            values = {"source": draw.place(Memory.SRAM, draw.one(1, 8)), "destination": draw.place(to, draw.one(1, 8))}
        if mnemonic in ("dma.load", "dma.store"):
            values["length"] = draw.one(draw.number(1, 300), draw.number(300, 4000))
        if mnemonic == "dma.fill":
            values = {"destination": values["destination"], "value": 0}
        return values

    def _region(self, mnemonic: str, v: Values) -> Values:
        """A part of the output, the whole of it as often as not."""
        draw = self.draw
        limit = {"y": v["ifm_height"] // v.get("stride_h", 1) or 1, "x": v["ifm_width"] // v.get("stride_w", 1) or 1}
        if mnemonic in ("vec.mean", "vec.bilinear"):
            limit = dict(zip("yx", output_size(mnemonic, v), strict=True))
        limit["c"] = v["ofm_channels"]
        values = {"n": 0}
        for (axis, whole), extent in zip(limit.items(), ("height", "width", "channels"), strict=True):
            grain = 16 if axis == "c" else 1
            first = grain * draw.number(0, (whole - 1) // grain) if draw.is_true(0.3) else 0
            values |= {axis: first, extent: whole - first}
        if mnemonic == "vec.softmax":
            values |= {"c": 0, "channels": limit["c"]}
        if mnemonic.startswith("mac."):
            k = {"k": 0, "k_channels": 1 if mnemonic == "mac.depthwise" else v["ifm_channels"]}
            values |= {**k, "weights": draw.place(draw.constant_memory(), draw.one(1, 8))}
        return values
