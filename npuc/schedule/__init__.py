"""Scheduling: stripes, tiles, load order, SRAM addresses; judged by the exact engine of isa.timing."""

from npuc.schedule.storages import storages_of

__all__ = ["storages_of"]
