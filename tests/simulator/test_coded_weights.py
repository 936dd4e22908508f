"""Coded weights: the same bytes as raw ones, from flash and from sram; malformed ones are faults."""

from collections.abc import Mapping

import numpy as np
import pytest

from isa.code_table import TABLE_UNIT_BYTES, code_table_offset
from isa.descriptors import Memory, address
from npuc.lower.weight_code import CodedWeights, encode_pieces
from simulator.errors import SimulatorFault
from simulator.execute.decoded import DecodedWeights
from simulator.machine import Machine
from simulator.program import load
from tests.simulator.assemble import SRAM_BYTES, Assembly, sram
from tests.simulator.layer import Fields, conv_layer, whole

CHANNELS, OUTPUTS, TAPS = 24, 40, 9
CUT = 32
STAGED = 0x8000


def weights(per_channel: int) -> bytes:
    values = np.random.default_rng(per_channel).normal(0, 6, OUTPUTS * per_channel)
    return np.rint(values).astype(np.int8).tobytes()


def coded(per_channel: int) -> CodedWeights:
    n, cut = OUTPUTS * per_channel, CUT * per_channel
    found = encode_pieces(weights(per_channel), [(0, cut), (cut, n)])
    assert found.table
    return found


def scales_and(table: bytes) -> bytes:
    row = np.zeros(OUTPUTS, [("bias", "<i4"), ("multiplier", "<i4"), ("shift", "u1"), ("reserved", "u1")])
    row["multiplier"], row["shift"] = 1 << 30, 36
    return row.tobytes().ljust(code_table_offset(OUTPUTS, 0), b"\0") + table


def layer_of(mnemonic: str, head: int, table: bytes) -> tuple[Fields, Fields, int]:
    """Layer fields, fields of the reduction, weights a channel."""
    is_depthwise = mnemonic == "mac.depthwise"
    ifm_channels = OUTPUTS if is_depthwise else CHANNELS
    layer = conv_layer(ifm_channels, OUTPUTS, head)
    layer |= {"kernel_h": 3, "kernel_w": 3, "pad_top": 1, "pad_left": 1, "code_table": len(table) // TABLE_UNIT_BYTES}
    k_channels = 1 if is_depthwise else CHANNELS
    return layer, {"k": 0, "k_channels": k_channels}, TAPS * k_channels


def run(assembly: Assembly) -> bytes:
    memory = np.random.default_rng(7).integers(0, 256, SRAM_BYTES, dtype=np.uint8)
    machine = Machine(load(assembly.container()), strict=True)
    first = machine.run({"sram": memory})["sram"].tobytes()
    assert machine.run({"sram": memory})["sram"].tobytes() == first
    return first[:STAGED]


def program(mnemonic: str, table: bytes, pieces: list[tuple[bytes, int]], staged: bool) -> Assembly:
    """The layer as two instructions, channels [0, CUT) and the rest, weights in flash or copied to sram before."""
    assembly = Assembly()
    head = assembly.constant(scales_and(table))
    layer, reduction, _ = layer_of(mnemonic, head, table)
    place, loads, conditions = STAGED, 0, {}
    for (data, words), c, channels in zip(pieces, (0, CUT), (CUT, OUTPUTS - CUT), strict=True):
        at = assembly.constant(data)
        if staged:
            copy = {"source": at, "destination": sram(place), "length": len(data)}
            assembly.add("dma.load", copy)
            at, place, loads = sram(place), place + len(data), loads + 1
            conditions = {"wait0_queue": 0, "wait0_count": loads}
        region = {**whole(channels), "c": c, **reduction, "weights": at, "coded_words": words, **conditions}
        assembly.add(mnemonic, region, layer)
    return assembly


@pytest.mark.parametrize("staged", [False, True], ids=["flash", "sram"])
@pytest.mark.parametrize("mnemonic", ["mac.conv", "mac.depthwise"])
def test_coded_weights_compute_what_raw_ones_do(mnemonic: str, staged: bool) -> None:
    per_channel = layer_of(mnemonic, 0, b"")[2]
    raw, found, cut = weights(per_channel), coded(per_channel), CUT * per_channel
    pieces = [(piece.data, piece.coded_words) for piece in found.pieces]
    assert any(words for _, words in pieces)
    expected = run(program(mnemonic, b"", [(raw[:cut], 0), (raw[cut:], 0)], staged))
    assert run(program(mnemonic, found.table, pieces, staged)) == expected


def fault(table: bytes, pieces: list[tuple[bytes, int]]) -> str:
    with pytest.raises(SimulatorFault) as caught:
        run(program("mac.conv", table, pieces, staged=False))
    return str(caught.value)


def test_malformed_coded_weights_are_faults() -> None:
    found = coded(TAPS * CHANNELS)
    pieces = [(piece.data, piece.coded_words) for piece in found.pieces]
    short = [(pieces[0][0], pieces[0][1] - 1), pieces[1]]
    assert "(mac.conv): coded weights in a layer with code_table 0" in fault(b"", pieces)
    assert "(mac.conv): coded weights need more than" in fault(found.table, short)
    assert "(mac.conv): weight codec 0, known: 1" in fault(bytes(16), pieces)


def test_a_stream_outside_the_program_is_a_fault() -> None:
    found = coded(TAPS * CHANNELS)
    assembly = Assembly()
    layer, reduction, _ = layer_of("mac.conv", assembly.constant(scales_and(found.table)), found.table)
    outside: Mapping[str, int] = {"weights": address(Memory.FLASH, 1 << 20), "coded_words": 9}
    assembly.add("mac.conv", {**whole(OUTPUTS), **reduction, **outside}, layer)
    with pytest.raises(SimulatorFault, match="of flash, limit"):
        run(assembly)


def test_decoded_weights_are_kept_up_to_a_limit() -> None:
    found = coded(TAPS)
    streams = [(piece.data, n * TAPS) for piece, n in zip(found.pieces, (CUT, OUTPUTS - CUT), strict=True)]
    streams = [(data, n) for data, n in streams if len(data) < n]
    large, small = DecodedWeights(1 << 20), DecodedWeights(10)
    for data, n in streams:
        kept = large.take(found.table, data, n)
        assert large.take(found.table, data, n) is kept
        assert small.take(found.table, data, n) is not small.take(found.table, data, n)
        assert small.take(found.table, data, n).tolist() == kept.tolist()
