"""Numbers from arrays: samples, observed ranges, scales and zero points, quantization tables, accuracy metrics.

Nothing here knows a graph; a network is a function from named input arrays to named tensors.
"""

from calibration.affine import affine_from_range, symmetric_scales, widen_for_bias
from calibration.arrange import arrange
from calibration.collect import Collected, collect
from calibration.dataset import load_inputs, load_labels, load_samples
from calibration.errors import CalibrationError
from calibration.metrics import agreement, channel_sqnr_db, cosine, sqnr_db, top1
from calibration.observers import OBSERVERS, Observer, new_observer
from calibration.preprocess import Preprocessing
from calibration.preprocess_file import read_preprocessing
from calibration.table import QuantTable, TensorQuant, quantize_range, table_from_ranges
from calibration.table_file import read_table, write_table

__all__ = [
    "OBSERVERS",
    "CalibrationError",
    "Collected",
    "Observer",
    "Preprocessing",
    "QuantTable",
    "TensorQuant",
    "affine_from_range",
    "agreement",
    "arrange",
    "channel_sqnr_db",
    "collect",
    "cosine",
    "load_inputs",
    "load_labels",
    "load_samples",
    "new_observer",
    "quantize_range",
    "read_preprocessing",
    "read_table",
    "sqnr_db",
    "symmetric_scales",
    "table_from_ranges",
    "top1",
    "widen_for_bias",
    "write_table",
]
