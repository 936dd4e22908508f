"""Programs that no compiler wrote: whatever the fields hold, the machine runs them or says why not."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.fields import Field
from isa.instructions import INSTRUCTIONS, InstructionSpec
from simulator.errors import SimulatorFault
from simulator.execute import BINDERS
from simulator.machine import Machine
from simulator.program import load
from tests.simulator.assemble import SRAM_BYTES, Assembly, sram

Fields = dict[str, int]

SMALL = {"height", "width", "channels", "k_channels", "kernel_h", "kernel_w", "size_0", "size_1", "size_2", "size_3"}
"""Fields that stay small, so that a case takes milliseconds: bigger ones meet the limit on elements."""

EXECUTED = [spec for spec in INSTRUCTIONS if spec.mnemonic in BINDERS]


@st.composite
def field_values(draw: st.DrawFn, fields: tuple[Field, ...]) -> Fields:
    """Values of the whole range of every field, with addresses that mostly exist and strides that mostly reach."""
    values = {}
    for field in fields:
        if field.is_reserved or field.name == "slot" or field.name.endswith(("_queue", "_count")):
            continue
        if field.unit == "address" and draw(st.integers(0, 9)):
            values[field.name] = sram(draw(st.integers(0, SRAM_BYTES // 2)))
        elif field.name in SMALL:
            values[field.name] = draw(st.integers(1, 5))
        else:
            high = min(field.high, draw(st.sampled_from([16, 256, field.high])))
            values[field.name] = draw(st.integers(field.low, max(field.low, high)))
    return values


def test_every_executable_instruction_has_a_binder() -> None:
    passive = {"end", "desc.load", "wait.dma-in", "wait.dma-out", "wait.mac", "wait.vec"}
    assert {spec.mnemonic for spec in INSTRUCTIONS} - passive == set(BINDERS)


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("spec", EXECUTED, ids=lambda spec: spec.mnemonic)
def test_any_instruction_runs_or_faults(spec: InstructionSpec, data: st.DataObject) -> None:
    assembly = Assembly("soc-1k")
    descriptor = data.draw(field_values(spec.descriptor.fields)) if spec.descriptor else None
    assembly.add(spec.mnemonic, data.draw(field_values(spec.fields)), descriptor)
    with suppress(SimulatorFault):
        machine = Machine(load(assembly.container()), strict=True)
        machine.run({"sram": np.random.default_rng(0).integers(0, 256, SRAM_BYTES, dtype=np.uint8)})
