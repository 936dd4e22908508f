"""Copies between two sides that each move a word a cycle: a word is written when the word with its last byte has come.

A piece of a copy is a pair (balance, delay): words read less words written, and how many cycles its writes are late at
most, counted from as many cycles as words that it has written. Pieces that follow each other add like the brackets of
a sum: the second's delay comes on top of the first's balance. What a run adds depends on both addresses modulo 8, so
that runs at equal distances repeat after eight.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from isa.timing.geometry import WORD_BYTES, Ints, run_words

Piece: TypeAlias = tuple[Ints, Ints]

_NEVER = 1 << 40


def copy_delay(addresses: tuple[Ints, Ints], run_bytes: Ints, dimensions: list[tuple[Ints, Ints, Ints]]) -> Ints:
    """Cycles of a copy beyond the words that it writes [n].

    `addresses` of source and destination; `dimensions`, innermost first: runs (or planes, or groups of them), and
    their distances at the source and at the destination, in bytes.
    """
    delay = _run(addresses[0] & 7, addresses[1] & 7, run_bytes)[1]
    many = np.flatnonzero(np.max([count for count, _, _ in dimensions], axis=0) > 1)
    if len(many):
        source, destination = np.indices((WORD_BYTES, WORD_BYTES))
        piece = _run(source[None], destination[None], run_bytes[many, None, None])
        for count, source_step, destination_step in dimensions:
            piece = _repeated(piece, count[many], source_step[many], destination_step[many])
        delay[many] = piece[1][np.arange(len(many)), addresses[0][many] & 7, addresses[1][many] & 7]
    return delay


def _run(source: Ints, destination: Ints, n_bytes: Ints) -> Piece:
    """One run [n, source, destination]: where the destination lags behind inside its words, all but the last of these
    need a further word of the source."""
    read, written = (run_words(side, n_bytes) for side in (source, destination))
    return read - written, np.maximum(read - written, np.where((source > destination) & (written > 1), 1, 0))


def _then(first: Piece, second: Piece) -> Piece:
    return first[0] + second[0], np.maximum(first[1], first[0] + second[1])


def _repeated(piece: Piece, count: Ints, source_step: Ints, destination_step: Ints) -> Piece:
    """`count` pieces, from each pair of addresses modulo 8 on: whole rounds of eight, and what remains."""
    rounds, rest = (part[:, None, None] for part in (count // WORD_BYTES, count % WORD_BYTES))
    rows, sources, destinations = np.indices(piece[0].shape)
    zero = np.zeros_like(piece[0])
    whole = remainder = (zero, zero - _NEVER)
    for i in range(WORD_BYTES):
        source, destination = (i * step[:, None, None] for step in (source_step, destination_step))
        place = rows, sources + source & 7, destinations + destination & 7
        following = piece[0][place], piece[1][place]
        whole = _then(whole, following)
        balance, delay = _then(remainder, following)
        remainder = np.where(i < rest, balance, remainder[0]), np.where(i < rest, delay, remainder[1])
    delay = np.where(rounds > 0, whole[1] + np.maximum((rounds - 1) * whole[0], 0), -_NEVER)
    return _then((rounds * whole[0], delay), remainder)
