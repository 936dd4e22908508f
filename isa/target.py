"""Targets: one TOML file each in `isa/targets`, validated into frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """What programs depend on; hashed into the fingerprint."""

    cin_lanes: int
    cout_lanes: int
    channel_block: int
    descriptor_slots: int
    has_dram: bool


@dataclass(frozen=True)
class Limits:
    """Hardware limits the legalizer, messages, docs and the encoder read; hashed into the fingerprint."""

    concat_inputs: int
    split_outputs: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    dimension: int
    batch: int
    table_count: int
    accumulator_bits: int


@dataclass(frozen=True)
class Rate:
    """A rational rate, `numerator / denominator` elements (or bytes) a cycle."""

    numerator: int
    denominator: int = 1


@dataclass(frozen=True)
class Costs:
    """Cycle costs; recorded in programs, not hashed. Rates are elements a cycle unless a unit is named."""

    mac_step_cycles: int
    mac_step_pixels_h: int
    mac_step_pixels_w: int
    mac_step_taps: tuple[tuple[int, int], ...]
    """(input channels, taps) pairs that one step may process, for example ((32, 1), (8, 4))."""
    mac_step_cout: int
    depthwise_channels: int
    depthwise_taps: int
    output_stage: Rate
    vector_add: Rate
    vector_mul: Rate
    vector_table: Rate
    vector_pool: Rate
    """Pooling taps a cycle."""
    vector_copy: Rate
    """Bytes a cycle of layout conversion."""
    vector_reduce: Rate
    vector_softmax: Rate
    accumulator_bytes: int
    input_buffer_bytes: int
    weight_buffer_bytes: int
    """Buffers: both ping-pong halves together."""
    block_fill_cycles: int
    block_drain_cycles: int
    dma_setup_cycles: int
    dispatch_cycles: int
    queue_depth: int
    prefetch_bytes: int
    decoder_weights: Rate


@dataclass(frozen=True)
class Board:
    """What a board may change without orphaning a program."""

    npu_hz: int
    arm_hz: int
    sram_bytes: int
    dram_bytes: int
    sram_read_bytes_per_cycle: int
    sram_write_bytes_per_cycle: int
    sram_shared_port: bool
    """True: reads and writes share one port of `sram_read_bytes_per_cycle`."""
    sram_latency_cycles: int
    flash_bytes_per_cycle: int
    flash_latency_cycles: int
    dram_bytes_per_cycle: int
    dram_latency_cycles: int


@dataclass(frozen=True)
class Energy:
    """Femtojoules of what a program does; recorded in programs, not hashed."""

    mac_fj: int
    """A multiply of two int8 and its 32-bit addition."""
    sram_byte_fj: int
    """A byte of the SRAM's port, read or written."""
    flash_byte_fj: int
    dram_byte_fj: int
    vector_element_fj: int
    """An element that the vector unit produces; of a pool a tap, of a mean an input."""
    static_cycle_fj: int
    """Leakage and clocks, in every cycle."""


@dataclass(frozen=True)
class Target:
    """A validated target."""

    name: str
    architecture: Architecture
    limits: Limits
    costs: Costs
    board: Board
    fingerprint: str
    """Hex SHA-256 (first 16 digits) of architecture and limits."""
    energy: Energy | None = None
    """None: the file does not say, and energy can be neither optimized nor reported."""
    description: str = ""
    """One sentence for listings and the manual."""
