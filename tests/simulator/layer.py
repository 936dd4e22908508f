"""One layer that tests change field by field: a 1x1 convolution of a 4x4 image, pixel-major, int8."""

import struct

import numpy as np
import numpy.typing as npt

from tests.simulator.assemble import Assembly, sram

Fields = dict[str, int]
Column = npt.NDArray[np.int64]

SIDE = 4
OFM = 0x2000


def scales(assembly: Assembly, channels: int, *, bias: int = 0, multiplier: int = 1 << 30, shift: int = 30) -> int:
    """Flash address of equal constants for every channel; the factor is 1 unless given."""
    row = np.zeros(channels, [("bias", "<i4"), ("multiplier", "<i4"), ("shift", "u1"), ("reserved", "u1")])
    row["bias"], row["multiplier"], row["shift"] = bias, multiplier, shift
    return assembly.constant(row.tobytes())


def records(form: int, bias: Column, multiplier: Column, shift: Column) -> bytes:
    """Constants of channels in records of `scale_form` `form`."""
    rows = zip(bias.tolist(), multiplier.tolist(), shift.tolist(), strict=True)
    if form == 0:
        return b"".join(struct.pack("<iiBB", *row, 0) for row in rows)
    n_bytes = form + 5
    return b"".join((b << 36 | s << 30 | m - (1 << 30)).to_bytes(n_bytes, "little", signed=True) for b, m, s in rows)


def tensor(prefix: str, offset: int, channels: int) -> Fields:
    fields = {"base": sram(offset), "pixel": channels, "row": SIDE * channels, "block": 16, "c0": 16}
    return {f"{prefix}_{name}": value for name, value in fields.items()}


def conv_layer(channels: int, ofm_channels: int, scale_table: int) -> Fields:
    return {
        **tensor("ofm", OFM, ofm_channels),
        **tensor("ifm", 0, channels),
        "ifm_height": SIDE,
        "ifm_width": SIDE,
        "ifm_channels": channels,
        "ofm_channels": ofm_channels,
        "clamp_low": -128,
        "clamp_high": 127,
        "scales": scale_table,
    }


def whole(channels: int) -> Fields:
    return {"n": 0, "y": 0, "x": 0, "c": 0, "height": SIDE, "width": SIDE, "channels": channels}
