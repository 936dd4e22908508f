"""Kernels: what one node asks of the machine, before anything is cut, ordered or placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from isa.resize import positions
from isa.target import Target
from npuc.arm.node import ArmNode
from npuc.graph.graph import Graph, Node
from npuc.lower.operand import Operand
from npuc.ops.op import Op
from npuc.ops.window import Window

ALIGNMENT = 16
"""Bytes to which parameters and buffers are aligned: two port words."""

ARM_CALL = "arm.call"
"""Mnemonic of a kernel on the Arm core, which has no instruction."""

PARAMETERS = "@parameters"
"""Storage name of a constant operand that travels with its kernel's parameters."""


POINT = Window((1, 1))
"""The window of operators that read one pixel."""


@dataclass(frozen=True)
class ChannelGroup:
    """Output channels [start, stop) that sum input channels [k, k + k_channels)."""

    start: int
    stop: int
    k: int
    k_channels: int


@dataclass(frozen=True)
class WeightPiece:
    """Stored weights of output channels [first, last): bytes [start, stop) of `Parameters.weights`.

    `coded_words` is the length of the coded stream in 8-byte words, 0 for raw weights.
    """

    first: int
    last: int
    start: int
    stop: int
    coded_words: int = 0


@dataclass(frozen=True)
class Parameters:
    """Constants of a kernel in the order in which they lie in memory; `weights` comes last and may be cut.

    Raw weights of output channel c (a multiple of the lane count inside its group) begin at c * weight_channel_bytes.
    Once coded, `pieces` says what lies where for each range of output channels that a task computes.
    """

    scales: bytes = b""
    table: bytes = b""
    operand: bytes = b""
    weights: bytes = b""
    weight_channel_bytes: int = 0
    code_table: bytes = b""
    pieces: tuple[WeightPiece, ...] = ()

    def piece(self, channels: range) -> WeightPiece:
        """Stored weights of a range of output channels."""
        first, last, per_channel = channels.start, channels.stop, self.weight_channel_bytes
        if not self.pieces:
            return WeightPiece(first, last, first * per_channel, last * per_channel)
        return self._by_channels[first, last]

    @cached_property
    def _by_channels(self) -> dict[tuple[int, int], WeightPiece]:
        return {(piece.first, piece.last): piece for piece in self.pieces}

    @cached_property
    def code_table_offset(self) -> int:
        """Byte offset of the weights' code table, directly behind the scales."""
        return _aligned(len(self.scales))

    @cached_property
    def table_offset(self) -> int:
        """Byte offset of the table that maps outputs."""
        return self.code_table_offset + _aligned(len(self.code_table))

    @cached_property
    def operand_offset(self) -> int:
        """Byte offset of the constant operand."""
        return self.table_offset + _aligned(len(self.table))

    @cached_property
    def head_bytes(self) -> int:
        """Bytes of everything but the weights."""
        return self.operand_offset + _aligned(len(self.operand))

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of everything, padded to the alignment."""
        return self.head_bytes + _aligned(len(self.weights))

    def image(self) -> bytes:
        """All bytes as they lie in flash, each part padded to the alignment."""
        parts = (self.scales, self.code_table, self.table, self.operand, self.weights)
        return b"".join(part.ljust(_aligned(len(part)), b"\0") for part in parts)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Kernel:
    """One instruction kind over the iteration space [n, rows, pixels, channels] of its output.

    `fields` are the descriptor fields that neither operands nor placement decide. A `spatial` kernel's rows are image
    rows, so it can be cut into stripes; `window` then says which input rows a stripe reads. A kernel with `arm` is a
    node on the Arm core: its rows are calls, `ofm` only names what they write.
    """

    node: str
    mnemonic: str
    sources: tuple[str, ...]
    ofm: Operand
    ifm: Operand | None = None
    ifm2: Operand | None = None
    fields: Mapping[str, int] = field(default_factory=dict)
    parameters: Parameters = Parameters()
    groups: tuple[ChannelGroup, ...] = ()
    spatial: bool = False
    window: Window = POINT
    whole_input: bool = False
    """Every output row reads every input row (global pooling)."""
    fixed_channels: bool = False
    """The channels must not be cut (softmax)."""
    shares: str = ""
    """Kernel that has the same parameters, which are stored and loaded once; empty: they are its own."""
    computed_weights: bool = False
    """`ifm2` holds the weights, raw; the output stage does not see it."""
    arm: ArmNode | None = None

    @property
    def owner(self) -> str:
        """The kernel under whose name the parameters are stored."""
        return self.shares or self.node

    @property
    def space(self) -> tuple[int, int, int, int]:
        """Iteration space [n, rows, pixels, channels]."""
        return self.ofm.shape

    @cached_property
    def reads(self) -> frozenset[str]:
        """Storages that it reads, and those that it needs while it runs."""
        if self.arm is not None:
            return frozenset((*self.arm.reads, *filter(None, [self.arm.scratch])))
        return frozenset(operand.storage for operand in (self.ifm, self.ifm2) if operand is not None)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it writes, and what instructions of the NPU read."""
        return tuple(operand for operand in (self.ofm, self.ifm, self.ifm2) if operand is not None)

    @property
    def described(self) -> dict[str, Operand]:
        """The operands in its descriptor, by the prefix of their fields."""
        found = {"ofm": self.ofm, "ifm": self.ifm, "ifm2": None if self.computed_weights else self.ifm2}
        return {prefix: operand for prefix, operand in found.items() if operand is not None}

    @property
    def is_mac(self) -> bool:
        """True when the kernel runs on the MAC array."""
        return self.mnemonic.startswith("mac.")

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole kernel."""
        if self.arm is not None:
            return self.arm.macs
        if not self.is_mac:
            return 0
        n, h, w, _ = self.space
        taps = self.window.kernel[0] * self.window.kernel[1]
        return n * h * w * taps * sum((g.stop - g.start) * g.k_channels for g in self.groups)

    def in_windows(self, windows: Mapping[str, int]) -> Kernel:
        """The kernel with its operands in channel windows, where `windows` has their storage: channels by name."""
        if not windows or not windows.keys() & {self.ofm.storage, *self.reads}:
            return self
        ofm, ifm, ifm2 = (
            operand.in_window(windows[operand.storage]) if operand and operand.storage in windows else operand
            for operand in (self.ofm, self.ifm, self.ifm2)
        )
        return replace(self, ofm=ofm or self.ofm, ifm=ifm, ifm2=ifm2)

    def input_rows(self, y: range) -> range:
        """Input rows that output rows `y` read, clipped to the tensor."""
        rows = self.ifm.shape[1] if self.ifm is not None else 0
        if self.whole_input or not self.spatial:
            return range(rows)
        if self.mnemonic == "vec.bilinear":
            found = positions(y, self.fields["multiplier_1"], self.fields["mid_low"], rows)
            return range(int(found.lower[0]), int(found.upper[-1]) + 1)
        if self.mnemonic == "vec.resize":
            factor = self.fields["stride_h"]
            return range(y.start // factor, (y.stop - 1) // factor + 1)
        stride, reach = self.window.stride[0], (self.window.kernel[0] - 1) * self.window.dilation[0]
        start = y.start * stride - self.window.pads[0]
        return range(max(start, 0), min((y.stop - 1) * stride - self.window.pads[0] + reach + 1, rows))


Rule = Callable[[Graph, Node, Target], list[Kernel]]
RULES: dict[type[Op], Rule] = {}


def lowers(*kinds: type[Op]) -> Callable[[Rule], Rule]:
    """Register the lowering rule of operators."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def lower_node(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """Kernels of a node of a placed graph on the NPU; views and placements need none.

    ValueError: the machine has no instruction for the node as it is placed; KeyError: no rule for the operator.
    """
    return RULES[type(node.op)](graph, node, target)


def share_parameters(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels with equal weights and scales name the first of them as their owner."""
    owners: dict[Parameters, str] = {}
    for kernel in kernels:
        owners.setdefault(kernel.parameters, kernel.node)
    return [
        replace(kernel, shares=owner) if kernel.parameters.weights and owner != kernel.node else kernel
        for kernel, owner in ((kernel, owners[kernel.parameters]) for kernel in kernels)
    ]
