"""The byte spans that order tasks cover every byte that an instruction touches, by brute force."""

from collections.abc import Iterator

from hypothesis import assume, given
from hypothesis import strategies as st

from isa.target_file import load_target
from npuc.errors import NpucError
from npuc.graph.graph import Graph
from npuc.legalize import legalize
from npuc.lower.kernel import Kernel
from npuc.lower.operand import Operand
from npuc.partition import ERROR, partition
from npuc.task.fields import layer_fields
from tests.core.random_networks import networks
from tests.verify.brute_force import element


def elements(operand: Operand, layer: dict[str, int], prefix: str, n: int, y: range, c: range) -> Iterator[int]:
    for row in y:
        for pixel in range(operand.shape[2]):
            for channel in c:
                yield from element(layer, prefix, n, row, pixel, channel)


@given(graph=networks(3), ring=st.sampled_from([0, 0, 1, 2, 3]), data=st.data())
def test_spans_cover_the_bytes_of_every_region(graph: Graph, ring: int, data: st.DataObject) -> None:
    kernels = [kernel for kernel in _kernels(graph) if kernel.mnemonic != "dma.fill"]
    assume(kernels)
    kernel = data.draw(st.sampled_from(kernels))
    prefix = data.draw(st.sampled_from(["ofm", "ifm"]))
    operand = kernel.ofm if prefix == "ofm" else kernel.ifm
    assert operand is not None
    batches, rows, _, channels = operand.shape
    ring = ring if kernel.spatial and operand.row and batches == 1 else 0
    y, c = _part(data, min(rows, ring or rows)), _part(data, channels)
    n = data.draw(st.integers(0, batches - 1))
    rings = {operand.storage: ring}
    layer = layer_fields(kernel, lambda _: 0, rings, 0, (1, 1, 8))
    layer |= {"ifm_channels": operand.shape[3], "ofm_channels": operand.shape[3]}
    spans = operand.span(n, y, c, ring)
    assert all(any(low <= byte < high for low, high in spans) for byte in elements(operand, layer, prefix, n, y, c))


def _kernels(graph: Graph) -> list[Kernel]:
    target = load_target("edge-64")
    try:
        return partition(legalize(graph, target), target, ERROR).kernels
    except NpucError:
        assume(False)
        raise


def _part(data: st.DataObject, size: int) -> range:
    start = data.draw(st.integers(0, size - 1))
    return range(start, data.draw(st.integers(start + 1, size)))
