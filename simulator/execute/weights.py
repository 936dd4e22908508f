"""The weights of MAC instructions as the memories hold them: raw, or coded behind a table of their layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.code_table import TABLE_UNIT_BYTES, WORD_BYTES, code_table_offset
from isa.errors import IsaError
from simulator.execute.binding import Binding
from simulator.memory import Array, Pattern


def bind_packed_weights(binding: Binding, n_weights: int) -> Callable[[], Array]:
    """Bind the packed weights of an instruction; called, they are int8 [n_weights] in the manual's order."""
    address, words = binding.values["weights"], binding.values["coded_words"]
    if not words:
        raw = binding.memories.read_view(binding.site, Pattern(address, (n_weights,), (1,), np.dtype(np.int8)))
        return lambda: raw
    stream = binding.memories.read_view(binding.site, Pattern(address, (WORD_BYTES * words,), (1,)))
    table = _code_table(binding)

    def decode() -> Array:
        try:
            return binding.workspace.decoded.take(table.tobytes(), stream.tobytes(), n_weights)
        except IsaError as error:
            raise binding.site.fault(str(error), error.hint) from None

    return decode


def _code_table(binding: Binding) -> Array:
    layer = binding.descriptor
    units = layer["code_table"]
    if not units:
        raise binding.site.fault("coded weights in a layer with code_table 0", "say how long the layer's code table is")
    address = layer["scales"] + code_table_offset(layer["ofm_channels"], layer["scale_form"])
    return binding.memories.read_view(binding.site, Pattern(address, (TABLE_UNIT_BYTES * units,), (1,)))
