"""What the example in examples/firmware-bare-metal prints, computed on the simulator."""

from collections.abc import Iterator, Mapping

import numpy as np

from simulator.machine import Machine
from simulator.program import load

N_SAMPLES, N_MODES = 20, 3


def expected_lines(programs: Mapping[str, bytes]) -> Iterator[str]:
    """The lines of one completion mode; `programs` has the files of `ink` and `digits`."""
    machines = {name: Machine(load(programs[name])) for name in ("ink", "digits")}
    random = 1
    for _ in range(N_SAMPLES):
        words = []
        for _ in range(32 * 32):
            random = (random * 1664525 + 1013904223) % (1 << 32)
            words.append(random)
        for name, machine in machines.items():
            bits = {"digits": 24, "ink": 28}[name]
            image = (np.array(words, np.uint32) >> bits).astype(np.uint8).view(np.int8).reshape(1, 1, 32, 32)
            (output,) = machine.run({"image": image}).values()
            yield f"{name} {output.tobytes().hex(' ')}"
