"""Emission: wait conditions, descriptors, instructions, container, debug map. Deterministic to the byte."""
