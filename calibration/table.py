"""The quantization table: what calibration decided, as a frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass

from calibration.affine import affine_from_range
from calibration.collect import Collected

SCHEMA = "npuc.quantization/1"


@dataclass(frozen=True)
class TensorQuant:
    """real = scale * (q - zero_point), q of `dtype`; lo and hi are the range before it is widened to zero."""

    scale: float
    zero_point: int
    dtype: str
    lo: float
    hi: float


@dataclass(frozen=True)
class QuantTable:
    """Quantization of the activations of one model.

    model_sha256: 64 hexadecimal digits of the model file. observer: the name given to calibration. n_samples: how many
    samples were seen. tensors: by tensor name. notes: one line each, for the report.
    """

    model_sha256: str
    observer: str
    n_samples: int
    tensors: Mapping[str, TensorQuant]
    notes: tuple[str, ...] = ()


def table_from_ranges(collected: Collected, model_sha256: str, dtype: str = "int8") -> QuantTable:
    """The table in which every collected tensor is quantized to `dtype` over its range."""
    tensors = {name: quantize_range(lo, hi, dtype) for name, (lo, hi) in collected.ranges.items()}
    return QuantTable(model_sha256, collected.observer, collected.n_samples, tensors, collected.notes)


def quantize_range(lo: float, hi: float, dtype: str = "int8") -> TensorQuant:
    """A table entry from a range; errors as `affine_from_range`."""
    scale, zero_point = affine_from_range(lo, hi, dtype)
    return TensorQuant(scale, zero_point, dtype, lo, hi)
