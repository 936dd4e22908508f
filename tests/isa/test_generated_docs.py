"""The committed manual is the one that the tables generate, and its C header agrees with the codec."""

import shutil
import subprocess
from pathlib import Path

import pytest

from isa.container_format import IO_ENTRY
from isa.descriptors import LAYER
from isa.header import c_header
from isa.manual import pages, write
from isa.record import encode_record
from tests.shared_data import ROOT


@pytest.mark.parametrize("name", sorted(pages()))
def test_committed_page_is_current(name: str) -> None:
    path = ROOT / "docs" / name
    assert path.is_file(), f"docs/{name} is missing: run python -m isa.manual docs"
    assert path.read_text(encoding="utf-8") == pages()[name], "run python -m isa.manual docs"


def test_no_committed_page_is_left_over() -> None:
    assert {f"isa/{path.name}" for path in (ROOT / "docs" / "isa").iterdir()} <= set(pages())


def test_writing_deletes_pages_that_are_no_longer_generated(tmp_path: Path) -> None:
    (tmp_path / "isa").mkdir()
    (tmp_path / "isa" / "old.md").write_text("")
    write(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == set(pages())


def test_links_between_pages_lead_somewhere() -> None:
    texts = pages()
    names = {name.removeprefix("isa/") for name in texts}
    for text in (text for name, text in texts.items() if name.startswith("isa/")):
        for target in (part.partition(")")[0] for part in text.split("](")[1:]):
            assert target in names or (ROOT / "docs" / "isa" / target).is_file()


PROGRAM = """
#include <stdio.h>
#include "npuc_isa.h"
int main(void)
{
    static const uint8_t layer[] = { LAYER_BYTES };
    static const uint8_t entry[] = { ENTRY_BYTES };
    printf("%lld %lld %lld %lld\\n", (long long)NPUC_GET(layer, LAYER_OFM_ZERO_POINT),
           (long long)NPUC_GET(layer, LAYER_KERNEL_W), (long long)NPUC_GET(layer, LAYER_IFM_ROW),
           (long long)NPUC_GET(entry, IO_ENTRY_ADDRESS));
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
def test_c_macros_read_what_the_codec_writes(tmp_path: Path) -> None:
    layer = encode_record(LAYER, {"ofm_zero_point": -7, "kernel_w": 256, "ifm_row": 0xABCDEF})
    entry = encode_record(IO_ENTRY, {"address": 0xFFFFFFFE})
    text = PROGRAM.replace("LAYER_BYTES", ", ".join(map(str, layer))).replace("ENTRY_BYTES", ", ".join(map(str, entry)))
    (tmp_path / "npuc_isa.h").write_text(c_header())
    (tmp_path / "main.c").write_text(text)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["cc", *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    result = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert result.stdout.split() == ["-7", "256", str(0xABCDEF), str(0xFFFFFFFE)]
