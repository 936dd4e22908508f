"""Layout assignment: where the elements of every value lie, chosen by what the units pay."""
