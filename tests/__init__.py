"""Tests of the packages; `from tests.shared_data import shared_file` reaches the shared models and data."""
