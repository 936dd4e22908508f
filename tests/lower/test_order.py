"""Kernels run when memory is held for the least time: stores early, what frees nothing late."""

from __future__ import annotations

from dataclasses import replace

from npuc.lower import Kernel, delayed, with_stores
from npuc.lower.operand import Operand


def copy(name: str, reads: str, result: str) -> Kernel:
    """A copy of up to two storages to a third."""
    first, second = (*[_operand(storage) for storage in reads.split()], None, None)[:2]
    return Kernel(name, "vec.copy", (), _operand(result), first, second, spatial=True)


def _operand(storage: str) -> Operand:
    return Operand(storage, 0, (1, 1, 1, 16), 0, 0, 0, 16, 16)


def names(kernels: list[Kernel]) -> str:
    return " ".join(kernel.node for kernel in kernels)


def test_a_state_is_stored_behind_the_last_read_of_the_old_one() -> None:
    kernels = [copy("new", "state x", "y"), copy("old", "state", "z"), copy("last", "y z", "out")]
    found = with_stores(kernels, [[copy("store", "y", "state")]])
    assert names(found) == "new old store last"
    assert [item.spatial for item in found] == [True, True, False, True]


def test_a_state_is_stored_behind_its_last_writer() -> None:
    kernels = [copy("read", "state", "a"), copy("half", "a", "y"), copy("rest", "a", "y"), copy("end", "a", "o")]
    assert names(with_stores(kernels, [[copy("store", "y", "state")]])) == "read half rest store end"


def test_a_state_that_nothing_computes_is_stored_first() -> None:
    assert names(with_stores([copy("a", "x", "o")], [[copy("store", "x", "state")]])) == "store a"


def test_a_kernel_that_frees_nothing_waits_for_its_reader() -> None:
    kernels = [copy("early", "x", "a"), copy("main", "y", "b"), copy("next", "b", "c"), copy("join", "a c", "d"),
               copy("again", "x d", "out")]  # fmt: skip
    assert names(delayed(kernels, {"out"})) == "main next early join again"


def test_a_kernel_that_frees_its_operand_stays() -> None:
    kernels = [copy("early", "x", "a"), copy("main", "y", "b"), copy("join", "a b", "out")]
    assert names(delayed(kernels, {"out"})) == "early main join"
    assert names(delayed(kernels, {"out", "x"})) == "main early join"


def test_a_kernel_does_not_pass_what_overwrites_its_operand() -> None:
    kernels = [copy("early", "x", "a"), copy("store", "y", "x"), copy("main", "y", "b"), copy("join", "a b", "o")]
    assert names(delayed(kernels, {"o", "x"})) == "early store main join"


def test_the_second_part_of_a_storage_stays() -> None:
    kernels = [copy("first", "x", "a"), copy("second", "x", "a"), copy("main", "y", "b"), copy("join", "a b", "o")]
    assert names(delayed(kernels, {"o", "x"})) == "first second main join"


def test_a_small_result_does_not_wait() -> None:
    kernels = [copy("early", "x", "a"), copy("main", "y", "b"), copy("join", "a b", "out")]
    large = replace(kernels[1], ofm=replace(kernels[1].ofm, shape=(1, 64, *kernels[1].ofm.shape[2:])))
    assert names(delayed([kernels[0], large, kernels[2]], {"out", "x"})) == "early main join"
