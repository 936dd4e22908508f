"""The decoder for coded weights in C, written from docs/weight-codec.md: the bytes and the errors of isa's."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from isa.errors import IsaError
from isa.weight_codec import decode_weights
from npuc.firmware.bundle import bundle_files as files
from npuc.firmware.toolchain import WARNINGS
from npuc.lower.weight_code import CodedWeights, encode_pieces
from tests.firmware.test_networks import NETWORKS, load
from tests.firmware_runtime.build import build, run
from tests.firmware_runtime.test_cosimulation import STATUSES
from tests.shared_data import leave_out

OK, BAD = 0, STATUSES["BAD_WEIGHTS"]
GUARD = 64
N_STATES, STATE_BYTES = 512, 6


class Decoder:
    """The C functions on this machine, with bytes around what they write."""

    def __init__(self, library: Path) -> None:
        self._call = ctypes.CDLL(str(library))

    def decode(self, table: bytes, stream: bytes, n_weights: int) -> bytes | int:
        """The weights, or the status of what went wrong."""
        states = np.zeros(N_STATES * STATE_BYTES, np.uint8)
        status = int(self._call.npuc_read_code_table(ctypes.c_void_p(states.ctypes.data), exact(table), len(table)))
        if status:
            return status
        memory = np.full(n_weights + 2 * GUARD, 0x5A, np.uint8)
        arguments = ctypes.c_void_p(states.ctypes.data), exact(stream), len(stream)
        status = int(self._call.npuc_decode_weights(*arguments, ctypes.c_void_p(memory.ctypes.data + GUARD), n_weights))
        assert (memory[:GUARD] == 0x5A).all()
        assert (memory[GUARD + n_weights :] == 0x5A).all()
        return status or memory[GUARD : GUARD + n_weights].tobytes()


def exact(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """A buffer of its own, so that a sanitizer sees what lies behind it."""
    return ctypes.create_string_buffer(data, max(len(data), 1))


def reference(table: bytes, stream: bytes, n_weights: int) -> bytes | int:
    try:
        return decode_weights(table, stream, n_weights).tobytes()
    except IsaError:
        return BAD


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    if not (command := shutil.which("gcc")):
        leave_out("no gcc for this machine")
    folder = tmp_path_factory.mktemp("weights")
    for name, content in files([]).items():
        (folder / name).write_bytes(content)
    checks = ["-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run([str(command), *WARNINGS, "-O2", *checks, "-shared", "-fPIC", "npuc_weights.c", "-o", "weights.so"],
                   cwd=folder, check=True)  # fmt: skip
    return Decoder(folder / "weights.so")


def drawn(seed: int, n_weights: int, deviation: float) -> bytes:
    values = np.random.default_rng(seed).normal(0, deviation, n_weights)
    return np.clip(np.rint(values), -128, 127).astype(np.int8).tobytes()


def coded(weights: bytes) -> CodedWeights:
    return encode_pieces(weights, [(0, len(weights))])


@pytest.mark.parametrize("deviation", [0.0, 0.2, 2.0, 12.0, 60.0])
def test_pieces_of_any_length_decode_to_what_was_coded(decoder: Decoder, deviation: float) -> None:
    n_coded = 0
    for n_weights in (*range(1, 40), 100, 1000, 4001):
        weights = drawn(n_weights, 4096, deviation)
        found = encode_pieces(weights, [(0, n_weights), (n_weights, len(weights))])
        for piece, part in zip(found.pieces, (weights[:n_weights], weights[n_weights:]), strict=True):
            if piece.coded_words:
                n_coded += 1
                assert decoder.decode(found.table, piece.data, len(part)) == part
    assert n_coded > 40


def test_damaged_tables_and_streams_have_the_verdict_of_the_manual(decoder: Decoder, rng: np.random.Generator) -> None:
    weights = drawn(0, 600, 9)
    found = coded(weights)
    n_accepted = n_refused = 0
    for _ in range(4000):
        table, stream, n_weights = bytearray(found.table), bytearray(found.pieces[0].data), len(weights)
        kind = rng.integers(6)
        if kind <= 1:
            table[rng.integers(len(table))] ^= 1 << rng.integers(8)
        elif kind == 2:
            stream[rng.integers(len(stream))] ^= 1 << rng.integers(8)
        elif kind == 3:
            del stream[len(stream) - int(rng.integers(20)) :]
        elif kind == 4:
            n_weights += int(rng.integers(-30, 30))
        else:
            stream += bytes(int(rng.integers(1, 17)))
        expected = reference(bytes(table), bytes(stream), n_weights)
        assert decoder.decode(bytes(table), bytes(stream), n_weights) == expected
        n_accepted += expected != BAD
        n_refused += expected == BAD
    assert n_accepted > 400
    assert n_refused > 1500


def test_tables_of_random_bits_and_of_wrong_lengths_have_the_verdict_of_the_manual(
    decoder: Decoder, rng: np.random.Generator
) -> None:
    table, stream = coded(drawn(1, 600, 9)).table, bytes(80)
    n_tables = 0
    for length in (*range(130), *range(16, 128, 16)):
        for n_random in range(12):
            bits = rng.integers(0, 256, n_random) & rng.integers(0, 256, n_random)
            damaged = (table[:1] + bits.astype(np.uint8).tobytes() + table[1 + n_random :])[:length].ljust(
                length, b"\0"
            )
            expected = reference(damaged, stream, 64)
            assert decoder.decode(damaged, stream, 64) == expected
            n_tables += expected != BAD
    assert n_tables > 0


def test_arguments_that_are_null_or_none_have_a_status(decoder: Decoder) -> None:
    found = coded(drawn(2, 600, 9))
    assert decoder.decode(found.table, found.pieces[0].data, 0) == BAD
    assert decoder.decode(b"", b"", 1) == BAD
    assert decoder._call.npuc_read_code_table(None, exact(b""), 16) == STATUSES["NULL_POINTER"]
    assert decoder._call.npuc_decode_weights(None, exact(b""), 8, exact(b""), 1) == STATUSES["NULL_POINTER"]
    assert decoder._call.npuc_decode_weights(exact(b""), exact(b""), 1 << 28, exact(b""), 1) == BAD


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_of_networks_decode_to_themselves(decoder: Decoder, name: str) -> None:
    n_coded = 0
    for constant in load(name).constants.values():
        if constant.dtype == np.int8 and constant.size > 64:
            weights = np.ascontiguousarray(constant).tobytes()
            found = coded(weights)
            n_coded += found.pieces[0].coded_words
            if found.table:
                assert decoder.decode(found.table, found.pieces[0].data, len(weights)) == weights
    assert n_coded > 0


MAIN = """
#include "board.h"
#include "npuc_weights.h"

npuc_device npu;
static npuc_code_table table;
static int8_t weights[%(n)d];
static const uint8_t stored[] = {%(table)s}, stream[] = {%(stream)s};

int main(void)
{
    require(npuc_read_code_table(&table, stored, sizeof stored));
    require(npuc_decode_weights(&table, stream, sizeof stream, weights, sizeof weights));
    print_hex("weights", weights, sizeof weights);
    require(npuc_decode_weights(&table, stream, sizeof stream, weights, sizeof weights - 9u));
    return 0;
}
"""


def test_firmware_decodes_the_same_bytes_and_says_what_is_wrong(tmp_path: Path) -> None:
    weights = drawn(3, 300, 5)
    found = coded(weights)
    text = MAIN % {"n": len(weights), "table": listed(found.table), "stream": listed(found.pieces[0].data)}
    status, output, _ = run(build(tmp_path, text, []))
    assert output.splitlines() == [f"weights {weights.hex(' ')}", "coded weights are malformed"]
    assert status == BAD


def listed(data: bytes) -> str:
    return ", ".join(map(str, data))


def test_models_do_not_link_the_decoder() -> None:
    _, _, sources = files([])["npuc.mk"].decode().partition("NPUC_SOURCES :=")
    assert "npuc_driver.c" in sources
    assert "npuc_weights.c" not in sources
