"""The whole of a small program as reviewed text, and the same bytes from every process."""

import hashlib
import subprocess
import sys
from collections.abc import Callable

from isa.assembler import disassemble
from isa.container import descriptors_offset, read_container
from tests.shared_data import ROOT
from tests.verify.networks import compile_for, conv_add_softmax

HASH = "import hashlib; from tests.verify.networks import *; " + (
    "print(hashlib.sha256(compile_for(conv_add_softmax(), 'u55-like', 1100).program).hexdigest())"
)


def test_listing_of_a_small_network(golden: Callable[[str, str], None]) -> None:
    container = read_container(compile_for(conv_add_softmax()).program)
    base = descriptors_offset(len(container.constants))
    golden("disasm/conv_add_softmax.txt", disassemble(container.instructions, container.descriptors, base))


def test_bytes_do_not_depend_on_the_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", HASH], cwd=ROOT, env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    program = compile_for(conv_add_softmax(), "u55-like", 1100).program
    assert found == {hashlib.sha256(program).hexdigest()}
