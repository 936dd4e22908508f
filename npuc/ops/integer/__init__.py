"""Operators on quantized tensors, logical axes NCHW; their meaning is that of `isa.arithmetic`, byte for byte."""
