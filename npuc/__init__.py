"""Compiler from ONNX and TFLite models to int8 edge-NPU programs."""
