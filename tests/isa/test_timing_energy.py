"""Energy follows from amounts that are counted anyway, in integers."""

from dataclasses import replace

import numpy as np

from isa.descriptors import Memory, address
from isa.instructions import BY_MNEMONIC
from isa.target import Energy
from isa.target_file import load_target, target_from_dict, target_to_dict
from isa.timing import Spent, Usage, energy_report, spent, usage_of, work_of
from tests.isa.test_timing_work import stem

EDGE = load_target("edge-256")
ENERGY = Energy(
    mac_fj=300, sram_byte_fj=8800, flash_byte_fj=174_000, dram_byte_fj=0, vector_element_fj=3300, static_cycle_fj=10_000
)


def test_a_tiny_program_by_hand() -> None:
    load = {"source": address(Memory.FLASH, 4096), "destination": address(Memory.SRAM, 0), "length": 100}
    addition = stem(ifm_channels=16, ifm_pixel=16, ifm_row=128, ifm2_base=address(Memory.SRAM, 0), ifm2_pixel=16,
                    ifm2_row=128, ifm2_c0=16)  # fmt: skip
    program = [("dma.load", load), ("desc.load", {"words": 9}), ("mac.conv", stem()), ("vec.add", addition)]
    names = {name for _, values in program for name in values}
    columns = {name: np.array([values.get(name, 0) for _, values in program], np.int64) for name in names}
    columns["opcode"] = np.array([BY_MNEMONIC[mnemonic].opcode for mnemonic, _ in program], np.int64)
    usage = usage_of(work_of(columns, EDGE), 1000)
    stream = sum(BY_MNEMONIC[mnemonic].length_bytes for mnemonic, _ in program)
    assert usage == Usage(
        macs=8 * 8 * 16 * 3 * 3 * 3,
        sram_bytes=8 * (13 + (154 + 128) + (256 + 128)),
        flash_bytes=100 + 72 + stream,
        dram_bytes=0,
        vector_elements=8 * 8 * 16,
        cycles=1000,
    )
    found = spent(replace(usage, flash_bytes=172), ENERGY)
    assert found == Spent(mac_pj=8295, sram_pj=47_802, flash_pj=29_928, dram_pj=0, vector_pj=3380, static_pj=10_000)
    assert found.predicted_pj == 8295 + 47_802 + 29_928 + 3380 + 10_000


def test_a_target_may_leave_energy_open() -> None:
    tables = target_to_dict(EDGE)
    assert tables.pop("energy") == vars(ENERGY)
    silent = target_from_dict("mine", tables)
    assert silent.energy is None
    assert silent.fingerprint == EDGE.fingerprint
    assert "energy" not in target_to_dict(silent)
    work = work_of({"opcode": np.array([BY_MNEMONIC["end"].opcode])}, silent)
    assert energy_report(work, 1, silent) is None
