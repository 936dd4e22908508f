"""Every instruction against the scalar model, byte for byte over all of sram, on random layouts."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator.machine import Machine
from simulator.program import load
from tests.simulator.assemble import SRAM_BYTES, Assembly
from tests.simulator.layer import records
from tests.simulator.layouts import (
    Fields,
    Shape,
    access_records,
    clamps,
    regions,
    rescales,
    second_inputs,
    shapes,
    windows,
)
from tests.simulator.scalar import ScalarMachine

EXAMPLES = settings(max_examples=60)


def check(assembly: Assembly, mnemonic: str, values: Fields, layer: Fields, seed: int) -> None:
    """Run one instruction on random bytes on both machines."""
    assembly.add(mnemonic, values, layer)
    data = assembly.container()
    memory = np.random.default_rng(seed).integers(0, 256, SRAM_BYTES, dtype=np.uint8)
    program = load(data)
    scalar = ScalarMachine(data, bytearray(memory.tobytes()), program.target.architecture.cout_lanes)
    index = len(program.code) - 2
    scalar.execute(mnemonic, program.values(index), program.descriptor(index))
    result = Machine(program, strict=True).run({"sram": memory})["sram"]
    differing = np.flatnonzero(result != np.frombuffer(scalar.sram, np.uint8))
    assert not len(differing), f"bytes {differing[:8]} differ"


def random_bytes(seed: int, n_bytes: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, n_bytes, dtype=np.uint8).tobytes()


@st.composite
def output_stages(draw: st.DrawFn, assembly: Assembly, ofm: Shape) -> Fields:
    """Layer fields of the output and its stage, with scales of every channel."""
    use_table = draw(st.booleans())
    layer = draw(access_records("ofm", ofm, rings=False, uint8=not use_table))
    layer |= {"double_round": draw(st.integers(0, 1)), "use_table": int(use_table)}
    layer |= draw(clamps(layer["ofm_type"] == 0))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    form = draw(st.integers(0, 3))
    limit = 2048 if form == 1 else 5000
    bias, multiplier, shift = (
        rng.integers(low, high, ofm.channels) for low, high in ((-limit, limit), (1 << 30, 1 << 31), (34, 44))
    )
    layer |= {"scale_form": form, "scales": assembly.constant(records(form, bias, multiplier, shift))}
    if use_table:
        layer |= {"table": assembly.constant(rng.integers(0, 256, 256, dtype=np.uint8).tobytes())}
    if draw(st.booleans()):
        layer |= (
            draw(second_inputs(ofm)) | draw(rescales()) | draw(clamps(layer["ofm_type"] == 0, "mid_low", "mid_high"))
        )
        layer |= {"use_residual": 1, "left_shift": 20, "mid_zero_point": draw(st.integers(-128, 127))}
    return layer


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 1 << 20), target=st.sampled_from(["edge-256", "edge-64"]))
@pytest.mark.parametrize("mnemonic", ["mac.conv", "mac.depthwise"])
def test_mac_instructions_equal_the_scalar_model(mnemonic: str, data: st.DataObject, seed: int, target: str) -> None:
    assembly = Assembly(target)
    ifm = data.draw(shapes(channels=20))
    layer, ofm = data.draw(windows(ifm))
    assume(ofm is not None)
    assert ofm is not None
    k = 0
    k_channels = 1
    if mnemonic == "mac.conv":
        ofm = Shape(ofm.height, ofm.width, data.draw(st.integers(1, 37)))
        k = data.draw(st.integers(0, ifm.channels - 1))
        k_channels = data.draw(st.integers(1, ifm.channels - k))
    layer |= {"ofm_channels": ofm.channels} | data.draw(access_records("ifm", ifm))
    layer |= data.draw(output_stages(assembly, ofm))
    values = data.draw(regions(ofm))
    n_weights = layer["kernel_h"] * layer["kernel_w"] * k_channels * values["channels"]
    weights = assembly.constant(random_bytes(seed, n_weights))
    check(assembly, mnemonic, {**values, "k": k, "k_channels": k_channels, "weights": weights}, layer, seed)


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 1 << 20))
@pytest.mark.parametrize("mnemonic", ["vec.add", "vec.sub", "vec.mul", "vec.table", "vec.copy"])
def test_elementwise_instructions_equal_the_scalar_model(mnemonic: str, data: st.DataObject, seed: int) -> None:
    assembly = Assembly()
    shape = data.draw(shapes())
    layer = {"ifm_height": shape.height, "ifm_width": shape.width, "ifm_channels": shape.channels, "left_shift": 20}
    layer |= {"ofm_channels": shape.channels} | data.draw(rescales())
    layer |= data.draw(access_records("ifm", shape, uint8=mnemonic != "vec.table")) | data.draw(second_inputs(shape))
    layer |= data.draw(access_records("ofm", shape))
    layer |= data.draw(clamps(layer["ofm_type"] == 0)) | {"table": assembly.constant(random_bytes(seed, 256))}
    values = data.draw(regions(shape))
    assume(values["height"] <= (layer["ofm_ring"] or shape.height))
    check(assembly, mnemonic, values, layer, seed)


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 1 << 20))
@pytest.mark.parametrize("mnemonic", ["vec.maxpool", "vec.avgpool"])
def test_pooling_equals_the_scalar_model(mnemonic: str, data: st.DataObject, seed: int) -> None:
    ifm = data.draw(shapes())
    layer, ofm = data.draw(windows(ifm))
    assume(ofm is not None)
    assert ofm is not None
    layer |= {"ofm_channels": ofm.channels, "count_pad": data.draw(st.integers(0, 1))}
    layer |= data.draw(access_records("ifm", ifm)) | data.draw(access_records("ofm", ofm, rings=False))
    layer |= {"ofm_type": layer["ifm_type"], "ofm_zero_point": layer["ifm_zero_point"]}
    layer |= data.draw(clamps(layer["ifm_type"] == 0))
    values = data.draw(regions(ofm))
    scalar = ScalarMachine(b"", bytearray())
    points = [(0, values["y"] + i, values["x"] + j, 0) for i in range(values["height"]) for j in range(values["width"])]
    assume(all(any(inside for *_, inside in scalar.taps(layer, point)) for point in points))
    check(Assembly(), mnemonic, values, layer, seed)


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_mean_equals_the_scalar_model(data: st.DataObject, seed: int) -> None:
    ifm = data.draw(shapes())
    ofm = Shape(1, 1, ifm.channels)
    layer = {"ifm_height": ifm.height, "ifm_width": ifm.width, "ifm_channels": ifm.channels}
    layer |= {"ofm_channels": ofm.channels} | data.draw(rescales())
    layer |= data.draw(access_records("ifm", ifm)) | data.draw(access_records("ofm", ofm, rings=False))
    layer |= data.draw(clamps(layer["ofm_type"] == 0))
    check(Assembly(), "vec.mean", data.draw(regions(ofm)), layer, seed)


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_softmax_equals_the_scalar_model(data: st.DataObject, seed: int) -> None:
    shape = data.draw(shapes(largest=3))
    layer = {"ifm_height": shape.height, "ifm_width": shape.width, "ifm_channels": shape.channels}
    layer |= {"ofm_channels": shape.channels, "multiplier_1": data.draw(st.integers(1 << 30, (1 << 31) - 1))}
    layer |= {"left_shift": data.draw(st.integers(18, 26))} | data.draw(access_records("ifm", shape, uint8=False))
    layer |= data.draw(access_records("ofm", shape, rings=False, uint8=False))
    values = data.draw(regions(shape)) | {"c": 0, "channels": shape.channels}
    check(Assembly(), "vec.softmax", values, layer, seed)


@EXAMPLES
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_resize_equals_the_scalar_model(data: st.DataObject, seed: int) -> None:
    ifm = data.draw(shapes(largest=4))
    vertical, horizontal = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    ofm = Shape(ifm.height * vertical, ifm.width * horizontal, ifm.channels)
    layer = {"ifm_height": ifm.height, "ifm_width": ifm.width, "ifm_channels": ifm.channels}
    layer |= {"ofm_channels": ofm.channels, "stride_h": vertical, "stride_w": horizontal}
    layer |= data.draw(access_records("ifm", ifm)) | data.draw(access_records("ofm", ofm, rings=False))
    check(Assembly(), "vec.resize", data.draw(regions(ofm)), layer, seed)
