"""The committed Verilog header is the one that the tables generate."""

from isa.descriptors import LAYER
from isa.verilog_header import verilog_header
from tests.rtl.bench import RTL


def test_committed_header_is_current() -> None:
    text = (RTL / "npuc_isa.vh").read_text(encoding="utf-8")
    assert text == verilog_header(), "run python -m isa.verilog_header rtl/npuc_isa.vh"


def test_every_field_of_a_layer_has_its_bits() -> None:
    defined = [line.split()[1] for line in verilog_header().splitlines() if line.startswith("`define")]
    assert len(defined) == len(set(defined))
    for field in LAYER.fields:
        assert f"NPUC_LAYER_{field.name.upper()}" in defined
