"""Port words of the weights of an instruction, access by access: what the layout and the order of chunks leave.

Weights lie as [groups][kernel_h][kernel_w][k_channels][lanes]. The array takes the input in chunks of one channel
block, so with more than one chunk it reads, for each group and tap, the piece that belongs to the chunk; with one chunk
all weights of a block of output channels follow each other.
"""

from tests.rtl.shapes import LANES, Case


def words(address: int, n_bytes: int) -> int:
    """Distinct aligned 8-byte words of a run."""
    return (address % 8 + n_bytes + 7) // 8


def pieces(case: Case) -> tuple[int, int]:
    """Words of all reads of weights, and of those of the first group of the first chunk."""
    v, d = case.values, case.layer
    taps = d["kernel_h"] * d["kernel_w"]
    block_c = 8 * d["block_c"]
    n_blocks = -(-v["height"] // d["block_h"]) * -(-v["width"] // d["block_w"])
    total = first = 0
    for c in range(0, v["channels"], block_c):
        n = min(block_c, v["channels"] - c)
        start = v["weights"] + c * taps * v["k_channels"]
        total += sum(words(start + at, n_bytes) for at, n_bytes in _pieces(n, taps, v["k_channels"]))
        if c == 0:
            first = sum(words(start + at, n_bytes) for at, n_bytes in _first(n, taps, v["k_channels"]))
    return n_blocks * total, first


def _pieces(channels: int, taps: int, k_channels: int) -> list[tuple[int, int]]:
    """(offset, bytes) of every contiguous piece of a block of output channels."""
    if k_channels <= LANES:
        return [(0, channels * taps * k_channels)]
    return [
        (group * taps * k_channels + (tap * k_channels + k) * min(LANES, channels - group), n)
        for k in range(0, k_channels, LANES)
        for group in range(0, channels, LANES)
        for tap in range(taps)
        for n in [min(LANES, k_channels - k) * min(LANES, channels - group)]
    ]


def _first(channels: int, taps: int, k_channels: int) -> list[tuple[int, int]]:
    if k_channels <= LANES:
        return [(0, min(LANES, channels) * taps * k_channels)]
    return _pieces(min(LANES, channels), taps, k_channels)[:taps]


def run_words(case: Case) -> tuple[int, int]:
    """The same for weights that are read as one run a block of channels, whatever the chunks."""
    v, d = case.values, case.layer
    channel = d["kernel_h"] * d["kernel_w"] * v["k_channels"]
    block_c = 8 * d["block_c"]
    n_blocks = -(-v["height"] // d["block_h"]) * -(-v["width"] // d["block_w"])
    runs = [min(block_c, v["channels"] - c) * channel for c in range(0, v["channels"], block_c)]
    chunk = min(LANES, runs[0] // channel) * d["kernel_h"] * d["kernel_w"] * min(LANES, v["k_channels"])
    return n_blocks * sum(words(v["weights"], n_bytes) for n_bytes in runs), words(v["weights"], chunk)


def shares_words(case: Case) -> bool:
    """Whether pieces of different chunks share words, which are then read more than once."""
    return pieces(case) != run_words(case)
