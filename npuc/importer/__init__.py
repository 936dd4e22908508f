"""Front ends: a model file in, the graph out; everything unsupported in one report."""
