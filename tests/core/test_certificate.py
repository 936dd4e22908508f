"""The certificate of cycles: right by hand on a few layers, whichever line of its proof says most."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from isa.target_file import load_target
from npuc.emit.certificate import Certificate, certify_cycles
from npuc.lower.kernel import ChannelGroup, Kernel, Parameters
from npuc.lower.operand import Operand

SHAPE = (1, 8, 8, 16)
"""An image of 8 x 8 pixels of 16 channels, pixel by pixel: 2 port words a pixel."""

ROOMY = 1 << 20


def image(storage: str, channels: int = 16) -> Operand:
    """An image of 8 x 8 pixels."""
    return Operand(storage, 0, (1, 8, 8, channels), 64 * channels, 8 * channels, channels, 16, 16)


def pointwise(weights: bytes, **changes: object) -> Kernel:
    """A 1x1 convolution of 16 to 16 channels."""
    fields = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    parameters = Parameters(scales=bytes(160), weights=weights, weight_channel_bytes=16)
    kernel = Kernel("conv", "mac.conv", ("conv",), image("y"), image("x"), fields=fields, parameters=parameters,
                    groups=(ChannelGroup(0, 16, 0, 16),), spatial=True)  # fmt: skip
    return replace(kernel, **changes)  # type: ignore[arg-type]


def chain(n_layers: int, weights: bytes, **changes: object) -> list[Kernel]:
    """Layers that each read what the one before wrote."""
    return [
        pointwise(weights, node=f"conv{i}", ifm=image(f"v{i}"), ofm=image(f"v{i + 1}"), **changes)
        for i in range(n_layers)
    ]


# 160 bytes of scales + 256 weights of 1 bit each + an instruction; the descriptor of all: up to channels of the output
LAYER, DESCRIPTOR = 160 + 32 + 32, 16 + 56


# Until the array may start: latency, instruction and descriptor; then fill and access, and in the end the drain
EDGE = 64 + 32 + DESCRIPTOR + 16 + 32 + 16


def bound(kernels: Sequence[Kernel], target: str, sram_bytes: int = ROOMY) -> Certificate:
    return certify_cycles(kernels, load_target(target), sram_bytes)


def sharing(n_layers: int) -> list[Kernel]:
    """A chain of layers with the same weights."""
    first, *others = chain(n_layers, bytes(256))
    return [first, *(replace(kernel, shares=first.node) for kernel in others)]


def test_the_flash_bounds_layers_of_many_weights() -> None:
    kernels = chain(9, bytes([0, 1]) * 128)
    assert bound(kernels, "edge-256").cycles == 64 + DESCRIPTOR + 9 * LAYER


def test_the_array_runs_one_layer_after_the_other() -> None:
    """1,024 outputs of each layer, 4 a cycle."""
    assert bound(sharing(10), "u55-like") == Certificate(EDGE + 10 * 256, "mac")


def test_weights_that_find_no_room_come_behind_the_layers_before_theirs() -> None:
    later = [
        pointwise(bytes(range(256)), node=f"later{i}", ifm=image(f"v{9 + i}"), ofm=image(f"v{10 + i}"))
        for i in range(3)
    ]
    weights = 3 * (160 + 256)
    assert bound(sharing(9) + later, "u55-like", 200) == Certificate(EDGE + 9 * 256 + weights - 200, "mac, then flash")
    assert bound(sharing(9) + later, "u55-like").cycles == EDGE + 12 * 256


def test_a_layer_that_needs_all_weights_starts_behind_them() -> None:
    """Ten layers of one set of weights behind a layer of many."""
    many = pointwise(bytes(range(256)) * 16, node="many", ofm=image("v0"), groups=(ChannelGroup(0, 16, 0, 256),),
                     ifm=replace(image("x", 256), block=16), parameters=Parameters(
                         scales=bytes(160), weights=bytes(range(256)) * 16, weight_channel_bytes=256))  # fmt: skip
    found = bound([many, *sharing(10)], "u55-like")
    assert found.resource == "flash, then mac"
    # 4,096 weights of 8 bits and scales; a stream of two instructions and two descriptors, the array's edges
    stream = 2 * 32 + 2 * DESCRIPTOR
    assert found.cycles == 64 + 4096 + 160 + stream + 16 + 32 + 10 * 256 + 16


def test_a_reader_of_half_a_result_does_not_wait_for_all_of_it() -> None:
    """The last element of a result may be one that the next layer does not read."""
    whole = sharing(9)
    half = replace(image("v9"), shape=(1, 4, 8, 16))
    later = pointwise(bytes(range(256)), node="later", ifm=half, ofm=replace(image("v10"), shape=(1, 4, 8, 16)))
    rest = pointwise(bytes(range(256)), node="rest", ifm=image("v9"), ofm=image("v11"))
    assert bound([*whole, later], "u55-like", 0).cycles == EDGE + 9 * 256 + 128
    assert bound([*whole, rest], "u55-like", 0) == Certificate(EDGE + 9 * 256 + 416, "mac, then flash")


@pytest.mark.parametrize("name", ["edge-256", "u55-like", "soc-1k"])
def test_more_memory_never_raises_the_bound(name: str) -> None:
    kernels = sharing(5) + [replace(k, node=f"{k.node}b") for k in chain(9, bytes(range(256)))[5:]]
    found = [bound(kernels, name, sram_bytes).cycles for sram_bytes in (0, 100, 500, 1000, ROOMY)]
    assert found == sorted(found, reverse=True)
    assert (found[0] > found[-1]) == (name != "soc-1k")


def test_the_edges_of_the_array_are_not_those_of_other_units() -> None:
    """16 channels of a pixel, 4 elements a cycle, once the stream has brought a descriptor and an instruction."""
    ifm, ofm = (Operand(name, 0, (1, 1, 1, 16), 16, 16, 16, 16, 16) for name in ("x", "y"))
    found = bound([Kernel("copy", "vec.copy", ("copy",), ofm, ifm)], "edge-256")
    assert found == Certificate(64 + 16 + 4 + 64 + 8 + 4 + 4, "vector")
