"""What a draft takes at least in picojoules, before it has addresses, when it runs for a number of cycles."""

from __future__ import annotations

from collections.abc import Sequence

from isa.instructions import BY_MNEMONIC
from isa.record import WORD_BYTES
from isa.target import Energy
from isa.timing import Usage, spent
from npuc.schedule.draft import Draft
from npuc.schedule.parameters import ParameterUse
from npuc.task.task import Compute


def least_picojoules(draft: Draft, uses: Sequence[ParameterUse], cycles: int, energy: Energy) -> int:
    """Without descriptors, waits and the elements of the vector unit.

    With fewer cycles than any placement takes it is a bound; with those that are expected it ranks drafts.
    """
    loaded = sum(use.buffer.n_bytes for use in uses)
    stream = sum(BY_MNEMONIC[task.mnemonic].length_bytes for task in draft.computes if isinstance(task, Compute))
    stream += len(uses) * BY_MNEMONIC["dma.load"].length_bytes
    usage = Usage(
        macs=sum(kernel.macs for kernel in draft.kernels if kernel.arm is None),
        sram_bytes=WORD_BYTES * sum(cost.least.port_words for cost in draft.costs) + loaded,
        flash_bytes=sum(cost.least.flash_bytes for cost in draft.costs) + loaded + stream,
        dram_bytes=0,
        vector_elements=0,
        cycles=cycles,
    )
    return spent(usage, energy).predicted_pj
