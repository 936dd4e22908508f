"""Listings say exactly what the bytes say, and a wrong listing is refused by line and token."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.assembler import assemble, assemble_listing, disassemble
from isa.codec import Instruction, encode
from isa.descriptors import DMA, LAYER
from isa.errors import IsaError
from isa.instructions import INSTRUCTIONS, InstructionSpec
from isa.record import encode_record
from tests.isa.strategies import instructions, record_values

BASE = 0x1280


@pytest.mark.parametrize("spec", INSTRUCTIONS, ids=lambda spec: spec.mnemonic)
@given(data=st.data())
def test_every_instruction_survives_its_listing(spec: InstructionSpec, data: st.DataObject) -> None:
    code = encode(data.draw(instructions(spec)))
    assert assemble(disassemble(code)) == code


def test_a_convolution_reads_like_the_manual() -> None:
    line = (
        "mac.conv slot=3 n=0 y=0 x=0 c=0 height=8 width=8 channels=16 k=0 k_channels=16 weights=flash:0x1240"
        " ; wait dma-in>=4 vec>=2"
    )
    assert disassemble(assemble(f"\n  {line}  # a comment\n")) == f"{line}\n"


def test_conditions_keep_their_places() -> None:
    line = "wait.vec ; wait none mac>=7 ; more arm>=1 none dma-out>=0"
    assert disassemble(assemble(line)) == f"{line}\n"


def test_notes_stand_behind_their_instruction() -> None:
    code = assemble("wait.mac\nend")
    assert disassemble(code, notes={1: "the\nend"}) == "wait.mac\nend  # the end\n"


def load(slot: int, address: int, data: bytes) -> bytes:
    return encode(Instruction("desc.load", {"slot": slot, "words": len(data) // 8, "address": address}))


@given(record_values(LAYER), record_values(DMA), st.binary(max_size=70).map(lambda b: b[: len(b) // 8 * 8]))
def test_descriptors_survive_the_listing(layer: dict[str, int], dma: dict[str, int], rest: bytes) -> None:
    first, second = encode_record(LAYER, layer, trim=True), encode_record(DMA, dma, trim=True)
    section = first + second + rest
    code = load(1, BASE, first) + load(2, BASE + len(first), second)
    code += assemble("vec.copy slot=1 n=0 y=0 x=0 c=0 height=1 width=1 channels=1")
    code += assemble("dma.fill slot=2 destination=sram:0x0 value=0\nend")
    text = disassemble(code, section, BASE)
    assert ".layer at=flash:0x1280" in text
    assert ".dma at=" in text
    result = assemble_listing(text)
    assert (result.instructions, result.descriptors, result.descriptors_base) == (code, section, BASE)


@given(st.binary(min_size=8, max_size=256).map(lambda b: b[: len(b) // 8 * 8]), st.integers(0, 300), st.integers(1, 64))
def test_any_descriptor_section_survives_the_listing(section: bytes, offset: int, words: int) -> None:
    code = encode(Instruction("desc.load", {"slot": 0, "words": words, "address": BASE + offset}))
    code += assemble("vec.copy slot=0 n=0 y=0 x=0 c=0 height=1 width=1 channels=1")
    result = assemble_listing(disassemble(code, section, BASE))
    assert (result.instructions, result.descriptors, result.descriptors_base) == (code, section, BASE)


WRONG = {
    "mac.sing": "'mac.sing', allowed: end, desc.load",
    "end slot=1": r"'slot=1', allowed: <field>=<value> with field one of \(none\)",
    "desc.load slot words=1 address=0": "'slot', allowed: <field>=<value> with field one of slot, words, address",
    "desc.load slot=32 words=1 address=0": "desc.load: slot = 32, allowed: 0 to 31",
    "desc.load slot=x words=1 address=0": "'slot=x', allowed: a number from 0 to 31",
    "desc.load slot=1 slot=1 words=1 address=0": "'slot=1' gives slot a second value",
    "desc.load slot=1 words=1 address=rom:0x0": r"'address=rom:0x0', allowed: flash\|sram\|dram:<offset>, or a number",
    "desc.load slot=1 words=1 address=flash:0x40000000": "an offset from 0 to 0x3fffffff",
    "desc.load slot=1 words=1": "desc.load: field address is missing",
    "end ; wait gpu>=1": "'gpu>=1', allowed: <queue>>=<count>, with queue one of dma-in, dma-out, mac, vec, arm",
    "end ; wait mac>=70000": "end: wait0_count = 70000, allowed: 0 to 65535",
    "end ; wait mac>=1 mac>=1 mac>=1 mac>=1": "wait with 4 conditions, allowed: 1 to 3",
    "end ; more mac>=1": "'more' after ';', allowed: wait",
    "end ;": "'' after ';', allowed: wait",
    "end ; wait mac>=1 ; wait mac>=1": "'wait' after ';', allowed: nothing more",
    ".layer kernel_h=3": "at=flash:<offset> is missing",
    ".layer at=flash:0x1281": "at = 0x1281, allowed: a flash address that is a multiple of 8",
    ".layer at=flash:0x1280 words=1 mid_high=1": "words = 1, the fields need 16",
    ".layer at=flash:0x1280 kernel_h=0": "layer: kernel_h = 0, allowed: 1 to 256",
    ".tensor at=flash:0x0": r"'.tensor', allowed: .layer, .dma, .data",
    ".data at=flash:0x0 0011": ".data: '0011', allowed: ",
    ".data": ".data: '', allowed: ",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named_with_what_is_allowed(line: str) -> None:
    with pytest.raises(IsaError, match=f"^line 2: .*{WRONG[line]}"):
        assemble(f"end\n{line}\n")


def test_descriptors_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(IsaError, match="line 2: flash:0x40 has other contents"):
        assemble(".data at=flash:0x40 0000000000000000\n.data at=flash:0x40 0000000000000001")
    with pytest.raises(IsaError, match="descriptors span 536870920 bytes"):
        assemble(".data at=flash:0x0 0000000000000000\n.data at=flash:0x20000000 0000000000000001")


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(IsaError):
        assemble(text)
