"""docs/anchors.md: the tables of the measured records beside those of Arm Vela."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.anchors.cell import (
    AVERAGED,
    FAST_FLASH,
    FULL_BYTES,
    GROUPS,
    HALF_BYTES,
    LATENCY,
    MAIN,
    NOT_MEASURED,
    POLICIES,
    SLOW_FLASH,
    Anchor,
    Cell,
    Record,
    anchors,
    of_groups,
)
from benchmarks.anchors.criteria import criteria, ladder, smallest
from benchmarks.anchors.criterion import REFERENCE, Measure, mean
from benchmarks.anchors.store import Store

NONE = "-"
HEAD = """# Schedule quality beside Arm Vela

The 27 TFLite networks of the shared `bench/schedule-anchors.tsv`. Every program runs on golden inputs and must
give the outputs of TFLite Micro, or of LiteRT's reference kernels where TFLite Micro does not run the network.
The page is written by `python -m benchmarks.anchors` from docs/anchors.json (benchmarks/README.md); measured at
{commit}.

**Bound** = max(MACs / 256, zero-order entropy of the weights / flash rate): a constant of the network, the same
for every tool. **Ratio** = cycles / bound. Vela's columns (5.2.0, Ethos-U55-256) are its own estimates,
optimized for speed. Geometric means of cycles are over the 22 networks of groups main and float-io; recurrent
networks and duplicates of a topology are listed apart. **Gap** = cycles / the certificate of the same compilation,
a number of cycles that no program of its kernels takes less than (docs/schedule.md).
"""

Cells = Sequence[object]


def page(measure: Measure, commit: str) -> str:
    """The whole page; cells without a record are shown as not measured."""
    parts = [
        HEAD.format(commit=commit),
        verdicts(measure),
        "## Cycles with 2 MiB, flash 1 byte a cycle\n\n" + cycles(measure, SLOW_FLASH),
        "## Cycles with 2 MiB, flash 4 bytes a cycle\n\n" + cycles(measure, FAST_FLASH),
        f"## Memory ({REFERENCE})\n\n{MEMORY_TEXT}\n" + memory(measure),
        f"## Flash ({REFERENCE}, 2 MiB)\n\n{FLASH_TEXT}\n" + flash(measure),
        f"## Policies ({REFERENCE})\n\n{POLICY_TEXT}\n" + policy_table(measure),
        f"## How far any schedule could go ({REFERENCE})\n\n{REACH_TEXT}\n" + reach_table(measure),
        f"## More memory ({REFERENCE})\n\n{LADDER_TEXT}\n" + ladders(measure),
    ]
    return "\n".join(parts)


def write_page(store: Store) -> None:
    """Write the page of the records beside their file."""
    store.path.with_suffix(".md").write_text(page(store.look, store.commit), encoding="utf-8")


MEMORY_TEXT = """Peak of all live bytes, inputs and outputs included; status is the allocator's proof for the
buffers and the order of the plan. Vela's figures of group float-io hold a float input as well. The last columns
are the search within the memory of Vela's small schedule.
"""
FLASH_TEXT = """Weights as stored, code tables included, beside their zero-order entropy; bytes read from flash
during an inference, without and with the stream of instructions and descriptors. Vela's figures are weights and
10 bytes a channel, without its command stream.
"""
POLICY_TEXT = """Cycles of the search, and those of the simpler policies (docs/schedule.md) over them, with
three budgets; small is Vela's small column. A `-` stands where that column holds a float input.
"""
REACH_TEXT = """Certificates of the same kernels within the memory, what they are of, and the cycles of each policy over
them. The geometric means of greedy and layerwise are the most that the criteria policies could show with any schedule.
"""
LADDER_TEXT = """Cycles with eight budgets in equal ratios from the smallest peak (`--optimize memory`) to 2 MiB.
"""


def verdicts(measure: Measure) -> str:
    """What is required, and whether it holds."""
    rows = []
    for criterion in criteria():
        verdict = criterion.judge(measure)
        shown = [f"{key} {text(value)}" for key, value in verdict.figures.items() if not key.endswith("ratios")]
        rows.append((criterion.name, criterion.requirement, "met" if verdict.ok else "**not met**", "; ".join(shown)))
    return "## Requirements\n\n" + table(("criterion ", "requirement ", "verdict ", "figures "), rows)


def text(value: object) -> str:
    """A figure for a reader: lists and tables as short as they can be."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def cycles(measure: Measure, targets: Sequence[str]) -> str:
    """Cycles and ratios on targets of one flash rate."""
    heads = ["model ", "group ", "bound", "Vela", "ratio"]
    rows: list[Cells] = []
    for anchor in grouped():
        bound, vela = anchor.bound(targets[0]), anchor.vela_cycles(targets[0])
        records = [measure(Cell(anchor.model, target, FULL_BYTES)) for target in targets]
        ours = [item for record in records for item in (*pair(record, bound), gap(record))]
        rows.append((anchor.model, anchor.group, bound, vela, f"{vela / bound:.3f}", *ours))
    for target in targets:
        heads += [target, "ratio", "gap"]
    averages = (AVERAGED, *((group,) for group in GROUPS if group not in AVERAGED))
    return table(heads, [*rows, *(means(measure, groups, targets) for groups in averages)])


def means(measure: Measure, groups: Sequence[str], targets: Sequence[str]) -> Cells:
    """The row of geometric means of some groups; it says how many networks it is of."""
    networks = of_groups(*groups)
    row: list[object] = [f"**geometric mean of {', '.join(groups)}**", len(networks), "", ""]
    row.append(mean(anchor.vela_cycles(targets[0]) / anchor.bound(targets[0]) for anchor in networks))
    for target in targets:
        records = [(anchor, measure(Cell(anchor.model, target, FULL_BYTES))) for anchor in networks]
        ratios = [record["cycles"] / anchor.bound(target) for anchor, record in records if "cycles" in record]
        gaps = [found for _, record in records if (found := over_bound(record, record)) is not None]
        row += ["" if len(ratios) == len(networks) else f"of {len(ratios)}", mean(ratios) or NONE, mean(gaps) or NONE]
    return row


def gap(record: Record) -> str:
    """Cycles over the certificate of the same compilation."""
    found = over_bound(record, record)
    return NONE if found is None else f"{found:.3f}"


def over_bound(record: Record, certified: Record) -> float | None:
    """Cycles of a record over the certificate of another one of the same kernels and memory."""
    if "cycles" not in record or "lower_bound" not in certified:
        return None
    return float(record["cycles"] / certified["lower_bound"])


def memory(measure: Measure) -> str:
    """Peaks with their proofs, and cycles with little memory."""
    heads = ["model ", "group ", "Vela fast", "Vela small", "peak", "status ", "--optimize memory", "status ", "ratio",
             "cycles, small", "ratio", "cycles, small, edge-256", "ratio"]  # fmt: skip
    rows: list[Cells] = []
    for anchor in grouped():
        full, least = measure(Cell(anchor.model, REFERENCE, FULL_BYTES)), smallest(measure, anchor.model)
        over = f"{least['sram_peak_bytes'] / anchor.vela_small_sram_bytes:.3f}" if "cycles" in least else NONE
        budget, within = anchor.vela_small_sram_bytes, []
        for target in SLOW_FLASH if anchor.group == MAIN else ():
            within += pair(measure(Cell(anchor.model, target, budget)), anchor.bound(target))
        rows.append((anchor.model, anchor.group, anchor.vela_fast_sram_bytes, budget, *peak(full), *peak(least), over,
                     *(within or [""] * 4)))  # fmt: skip
    return table(heads, rows)


def peak(record: Record) -> list[object]:
    """Peak bytes and their proof."""
    if "cycles" not in record:
        return [why(record), NONE]
    gap = record["sram_peak_bytes"] - record["sram_bound_bytes"]
    return [record["sram_peak_bytes"], record["sram_status"] + (f", {gap} above the bound" if gap else "")]


def flash(measure: Measure) -> str:
    """Stored weights and off-chip bytes."""
    heads = ["model ", "group ", "weights", "entropy", "stored", "ratio", "Vela off chip", "off chip", "ratio",
             "with stream", "stored stream"]  # fmt: skip
    rows: list[Cells] = []
    for anchor in grouped():
        record = measure(Cell(anchor.model, REFERENCE, FULL_BYTES))
        given: Cells = (anchor.model, anchor.group, anchor.weight_bytes, anchor.entropy_bytes)
        if "cycles" not in record:
            rows.append((*given, why(record), *[NONE] * 6))
            continue
        stored, read, vela = record["weights_bytes"], record["offchip_data_bytes"], anchor.vela_fast_offchip_bytes
        rows.append((*given, stored, f"{stored / anchor.entropy_bytes:.3f}", vela, read, f"{read / vela:.3f}",
                     read + record["offchip_stream_bytes"], record["stream_bytes"]))  # fmt: skip
    return table(heads, rows)


BUDGETS: dict[str, Callable[[Anchor], int]] = {
    "2 MiB": lambda anchor: FULL_BYTES,
    "512 KiB": lambda anchor: HALF_BYTES,
    "small": lambda anchor: anchor.vela_small_sram_bytes,
}


def policy_table(measure: Measure) -> str:
    """Cycles of the search and of the policies that it is compared with."""
    heads, rows = ["model ", "group "], list[Cells]()
    for name in BUDGETS:
        heads += [f"search, {name}", *(f"{policy} /" for policy in POLICIES[1:])]
    columns: list[list[float]] = [[] for _ in range(3 * len(BUDGETS))]
    for anchor in of_groups(*AVERAGED):
        row: list[object] = []
        for name, budget in BUDGETS.items():
            if name == "small" and anchor.group != MAIN:
                row += [NONE] * 3
                continue
            found = [measure(Cell(anchor.model, REFERENCE, budget(anchor), LATENCY, policy)) for policy in POLICIES]
            for record in found:
                ratio = over(record, found[0])
                if ratio is not None:
                    columns[len(row)].append(ratio)
                row.append(record["cycles"] if ratio and record is found[0] else ratio or why(record))
        rows.append((anchor.model, anchor.group, *(f"{x:.3f}" if isinstance(x, float) else x for x in row)))
    rows.append(("**geometric mean**", "", *("" if i % 3 == 0 else mean(c) or NONE for i, c in enumerate(columns))))
    return table(heads, rows)


def reach_table(measure: Measure) -> str:
    """Certificates with little memory, and the cycles of all policies over them."""
    heads, rows = ["model ", "group "], list[Cells]()
    budgets = {name: budget for name, budget in BUDGETS.items() if budget is not BUDGETS["2 MiB"]}
    for name in budgets:
        heads += [f"certificate, {name}", "by ", *(f"{policy} /" for policy in POLICIES)]
    columns: dict[tuple[str, str], list[float]] = {(name, policy): [] for name in budgets for policy in POLICIES}
    for anchor in of_groups(*AVERAGED):
        row: list[object] = []
        for name, budget in budgets.items():
            if name == "small" and anchor.group != MAIN:
                row += [NONE] * (2 + len(POLICIES))
                continue
            found = [measure(Cell(anchor.model, REFERENCE, budget(anchor), LATENCY, policy)) for policy in POLICIES]
            row += [found[0].get("lower_bound", NONE), found[0].get("lower_bound_by", NONE)]
            for policy, record in zip(POLICIES, found, strict=True):
                ratio = over_bound(record, found[0])
                columns[name, policy] += [] if ratio is None else [ratio]
                row.append(NONE if ratio is None else f"{ratio:.3f}")
        rows.append((anchor.model, anchor.group, *row))
    means = [[mean(columns[name, policy]) or NONE for policy in POLICIES] for name in budgets]
    rows.append(("**geometric mean**", "", *(item for found in means for item in ("", "", *found))))
    return table(heads, rows)


def over(record: Record, search: Record) -> float | None:
    """Cycles over those of the search."""
    return record["cycles"] / search["cycles"] if "cycles" in record and "cycles" in search else None


def ladders(measure: Measure) -> str:
    """Cycles at the eight budgets of each network."""
    rows: list[Cells] = []
    for anchor in grouped():
        steps = ladder(measure, anchor.model)
        first = next(iter(steps), None)
        shown = [NONE if value is None else value for value in steps.values()] or [NONE] * 8
        rows.append((anchor.model, anchor.group, first or why(smallest(measure, anchor.model)), *shown))
    return table(["model ", "group ", "smallest", "1", "2", "3", "4", "5", "6", "7", "2 MiB"], rows)


def grouped() -> Iterable[Anchor]:
    """All networks, group by group."""
    return (anchor for group in GROUPS for anchor in anchors().values() if anchor.group == group)


def pair(record: Record, bound: int) -> list[object]:
    """Cycles and ratio, or why there are none."""
    return [record["cycles"], f"{record['cycles'] / bound:.3f}"] if "cycles" in record else [why(record), NONE]


def why(record: Record) -> str:
    """Why there is no program, in three words."""
    if record["status"] == NOT_MEASURED:
        return "not measured"
    return "does not fit" if "bytes of sram" in record.get("error", "") else "not compiled"


def table(heads: Sequence[str], rows: Iterable[Cells]) -> str:
    """A Markdown table; headings that end in a space are set to the left."""
    lines = [f"| {' | '.join(head.strip() for head in heads)} |"]
    lines.append("|" + "|".join("---" if head.endswith(" ") else "---:" for head in heads) + "|")
    lines += [f"| {' | '.join(str(NONE if item is None else item) for item in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
