"""The certificate of cycles: right by hand on one layer, whichever resource is the busiest."""

from dataclasses import replace

import pytest

from isa.target_file import load_target
from npuc.emit.certificate import Certificate, certify_cycles
from npuc.lower.kernel import ChannelGroup, Kernel, Parameters
from npuc.lower.operand import Operand

SHAPE = (1, 8, 8, 16)
"""An image of 8 x 8 pixels of 16 channels, pixel by pixel: 2 port words a pixel."""


def pointwise(weights: bytes, **changes: object) -> Kernel:
    """A 1x1 convolution of 16 to 16 channels."""
    ifm, ofm = (Operand(name, 0, SHAPE, 1024, 128, 16, 16, 16) for name in ("x", "y"))
    fields = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    parameters = Parameters(scales=bytes(160), weights=weights, weight_channel_bytes=16)
    kernel = Kernel("conv", "mac.conv", ("conv",), ofm, ifm, fields=fields, parameters=parameters,
                    groups=(ChannelGroup(0, 16, 0, 16),), spatial=True)  # fmt: skip
    return replace(kernel, **changes)  # type: ignore[arg-type]


# 64 latency + 160 bytes of scales + 256 weights of 1 bit each at 1 byte a cycle
FLASH = 64 + 160 + 32


@pytest.mark.parametrize(
    ("target", "n_layers", "expected"),
    [
        ("edge-256", 1, Certificate(FLASH, "flash")),
        # 1,024 outputs, 4 a cycle through the output stage; the flash takes as long
        ("u55-like", 1, Certificate(FLASH, "mac")),
        ("edge-256", 9, Certificate(9 * (FLASH - 64) + 64, "flash")),
    ],
)
def test_the_busiest_resource_bounds_the_cycles(target: str, n_layers: int, expected: Certificate) -> None:
    kernels = [pointwise(bytes([0, 1]) * 128, node=f"conv{i}") for i in range(n_layers)]
    assert certify_cycles(kernels, load_target(target)) == expected


def test_the_port_bounds_layers_that_share_their_weights() -> None:
    kernels = [pointwise(bytes(256), node=f"conv{i}", shares="conv0" if i else "") for i in range(10)]
    # 64 pixels, one step each, on the datapath; 128 words at one word a cycle on each port
    assert certify_cycles(kernels, load_target("edge-256")) == Certificate(1280, "sram-read")
