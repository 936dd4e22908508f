"""Schedules as text: what is written is read back, and what cannot be right is refused with its line."""

import pytest

from isa.target_file import load_target
from npuc.errors import DoesNotFit
from npuc.legalize import legalize
from npuc.lower.kernel import Kernel
from npuc.partition import partition
from npuc.passes import INTEGER_PASSES, run_passes
from npuc.task.text import format_plan, parse_plan
from tests.verify.networks import compile_for, conv_add_softmax


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    target = load_target("edge-256")
    graph = legalize(run_passes(conv_add_softmax(), INTEGER_PASSES), target)
    return partition(graph, target).kernels


@pytest.fixture(scope="module")
def text() -> str:
    return compile_for(conv_add_softmax(), policy="layerwise").schedule  # which loads all parameters


def test_reading_and_writing_are_inverse(text: str, kernels: list[Kernel]) -> None:
    assert format_plan(parse_plan(text, kernels)) == text


def test_descriptors_that_wait_are_written_and_read(text: str, kernels: list[Kernel]) -> None:
    edited = text.replace("load", "descriptors wait\nload", 1)
    plan = parse_plan(edited, kernels)
    assert plan.plan.descriptors_wait
    assert format_plan(plan) == edited


def test_blank_lines_and_comments_do_not_count(text: str, kernels: list[Kernel]) -> None:
    commented = text.replace("\n", "\n\n# edited by hand\n")
    assert format_plan(parse_plan(commented, kernels)) == text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("npuc-schedule 1", "npuc-schedule 9", "expected the header"),
        ("compute", "conpute", "unknown line kind 'conpute'"),
        ("mac.conv", "mac.depthwise", "runs mac.conv, not mac.depthwise"),
        (" n=0", " n=1", "n 1 leaves 0:1"),
        (" c=0:5", " c=0:6", "c 0:6 is empty or leaves 0:5"),
        (" c=0:5", " c=5:5", "c 5:5 is empty or leaves 0:5"),
        (" n=0", "", "'n'"),
        ('load "p0"', 'load "p9"', "'p9' is no parameters buffer"),
        ('load "p0" 0:', 'load "p0" 0:16 before 0:', "expected after and a kernel, found before 0:"),
        ("activation", "passivation", "'passivation'"),
        ("compute", "descriptors run\ncompute", "expected descriptors wait, found descriptors run"),
    ],
)
def test_line_that_cannot_be_right_is_named(text: str, kernels: list[Kernel], old: str, new: str, reason: str) -> None:
    number = 1 + text[: text.index(old)].count("\n")
    with pytest.raises(DoesNotFit) as failure:
        parse_plan(text.replace(old, new, 1), kernels)
    assert failure.value.message.startswith(f"schedule line {number}: ")
    assert reason in failure.value.message


def test_every_output_element_is_computed_once(text: str, kernels: list[Kernel]) -> None:
    computed = next(line for line in text.splitlines() if line.startswith("compute"))
    for edited in (text.replace(f"{computed}\n", "", 1), text.replace(computed, f"{computed}\n{computed}", 1)):
        with pytest.raises(DoesNotFit, match="its tasks compute"):
            parse_plan(edited, kernels)
