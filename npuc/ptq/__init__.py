"""Post-training quantization: from a float graph and a table of ranges to a graph of integer operators."""
