"""Reading window geometry from ONNX nodes, and seeing 1-D data as one row of 2-D data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npuc.ops.onnx_rule import OnnxNode, Refusal
from npuc.ops.structure import Reshape
from npuc.ops.window import Window


def read_window(node: OnnxNode, kernel: tuple[int, ...], sizes: tuple[int, ...]) -> Window:
    """Window of a Conv or pooling node over spatial `sizes` (one or two axes); auto_pad becomes explicit pads."""
    rank = len(sizes)
    stride = node.integers("strides") or (1,) * rank
    dilation = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * 2 * rank
    mode = node.text("auto_pad", "NOTSET")
    for what, got, n in (("kernel_shape", kernel, rank), ("strides", stride, rank), ("dilations", dilation, rank),
                         ("pads", pads, 2 * rank)):
        if len(got) != n:
            raise Refusal(f"{what} has {len(got)} values, the input needs {n}")
    if min(*kernel, *stride, *dilation) < 1 or min(pads) < 0:
        raise Refusal(f"kernel {list(kernel)}, strides {list(stride)}, dilations {list(dilation)}, pads {list(pads)}: "
                      "negative or zero")
    if mode == "VALID":
        pads = (0,) * 2 * rank
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = same_pads(kernel, stride, dilation, sizes, at_end=mode == "SAME_UPPER")
    elif mode != "NOTSET":
        raise Refusal(f"auto_pad {mode}")
    return as_2d(kernel, stride, dilation, pads)


def as_2d(kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], pads: tuple[int, ...]) -> Window:
    """Window from ONNX lists of one or two axes; a 1-D window is one row high."""
    if len(kernel) == 1:
        return Window((1, kernel[0]), (1, stride[0]), (1, dilation[0]), (0, pads[0], 0, pads[1]))
    return Window((kernel[0], kernel[1]), (stride[0], stride[1]), (dilation[0], dilation[1]),
                  (pads[0], pads[1], pads[2], pads[3]))


def same_pads(kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], sizes: tuple[int, ...],
              at_end: bool) -> tuple[int, ...]:
    """Pads that give ceil(size / stride) windows; the odd pixel goes to the end for SAME_UPPER."""
    before, after = [], []
    for k, s, d, size in zip(kernel, stride, dilation, sizes, strict=True):
        total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        less, more = total // 2, total - total // 2
        before.append(less if at_end else more)
        after.append(more if at_end else less)
    return (*before, *after)


def window_attributes(window: Window) -> dict[str, Any]:
    """ONNX attributes of a window."""
    return {"kernel_shape": window.kernel, "strides": window.stride, "dilations": window.dilation, "pads": window.pads}


def in_rows(node: OnnxNode, x: str, build: Callable[[str], str]) -> str:
    """Apply `build` to x [n,c,h,w], or to x [n,c,l] seen as [n,c,1,l]; the result gets x's rank back."""
    shape = node.shape_of(x)
    if len(shape) == 4:
        return build(x)
    if len(shape) != 3:
        raise Refusal(f"input of rank {len(shape)}, allowed are 3 [n,c,l] and 4 [n,c,h,w]")
    y = build(node.emit(Reshape((*shape[:2], 1, shape[2])), x))
    n, c, _, length = node.shape_of(y)
    return node.emit(Reshape((n, c, length)), y)
