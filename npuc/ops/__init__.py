"""Operators: type, meaning, quantization and lowering of each in one place."""
