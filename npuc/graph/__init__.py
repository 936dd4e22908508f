"""The graph IR: types, nodes, verification, evaluation, rewriting and printing."""
