"""The CSV reader trusts nothing; the writer repeats itself byte for byte."""

from pathlib import Path

import pytest

from npuc.allocation import Buffer, InvalidProblem, Placement, Problem, read_offsets, read_problem, write_csv

HEADER = "id,lower,upper,size\n"
PROBLEM = Problem((Buffer("conv, 1", 0, 4, 16), Buffer('say "x"', 2, 6, 32)))


def test_problem_and_offsets_survive_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "problem.csv"
    write_csv(path, PROBLEM, Placement({"conv, 1": 32, 'say "x"': 0}, 48, 48))
    assert path.read_bytes() == b'id,lower,upper,size,offset\n"conv, 1",0,4,16,32\n"say ""x""",2,6,32,0\n'
    assert read_problem(path) == PROBLEM
    assert read_offsets(path) == {"conv, 1": 32, 'say "x"': 0}


def test_column_order_blank_lines_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "problem.csv"
    path.write_bytes(b"\xef\xbb\xbfsize,id,upper,lower\r\n16,a,4,0\r\n\r\n")
    assert read_problem(path, 64) == Problem((Buffer("a", 0, 4, 16),), capacity_bytes=64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"p.csv:1: header is '', expected id,lower,upper,size\[,offset\]"),
        ("id,lower,upper\n", "p.csv:1: header is 'id,lower,upper'"),
        (HEADER + "a,0,4\n", "p.csv:2: 3 fields, expected 4"),
        (HEADER + "a,0,4,1.5\n", "p.csv:2: size is '1.5', expected an integer"),
        (HEADER + "a,0,4," + "9" * 5000 + "\n", "p.csv:2: size is '9{40}', expected an integer of at most 18 digits"),
        (HEADER + "a,0,4,-1\n", "p.csv:2: buffer a: size is -1 bytes"),
        (HEADER + ",0,4,1\n", "p.csv:2: id is empty"),
        (HEADER + "a,0,4,1\n\na,0,4,1\n", "p.csv:4: id a is already used in line 2"),
        (HEADER + '"a,0,4,1\n', "p.csv:2: unexpected end of data"),
    ],
)
def test_malformed_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(InvalidProblem, match=message):
        read_problem(path)


def test_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidProblem, match="not UTF-8 at byte 0"):
        read_problem(path)


def test_offsets_need_their_column(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    write_csv(path, PROBLEM)
    with pytest.raises(InvalidProblem, match="no offset column"):
        read_offsets(path)


def test_name_that_would_not_survive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="no line break"):
        write_csv(tmp_path / "p.csv", Problem((Buffer("a\nb", 0, 1, 1),)))
