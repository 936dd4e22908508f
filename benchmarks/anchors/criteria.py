"""What is required of the schedules: a function for each requirement, and the list of all."""

from __future__ import annotations

import re
from functools import partial

from benchmarks.anchors.cell import (
    AVERAGED,
    CANNOT,
    DONE,
    FULL_BYTES,
    GREEDY,
    HALF_BYTES,
    LATENCY,
    LAYERWISE,
    MAIN,
    MEMORY,
    RECURRENT,
    SEARCH,
    SLOW_FLASH,
    Anchor,
    Cell,
    Record,
    anchors,
    of_groups,
)
from benchmarks.anchors.criterion import (
    REFERENCE,
    Criterion,
    Figures,
    Measure,
    Verdict,
    averaged,
    is_at_most,
    mean,
    ratio,
    split,
)

LIMITS = {"u55-like": 1.65, "u55-like-mram": 2.45, "edge-256": 1.30, "edge-256-mram": 1.85}
"""Geometric mean of cycles over the bound with 2 MiB."""

N_BUDGETS = 8
VELA_STREAM_BYTES = 17_800
"""Vela's command stream for MobileNetV2-224."""


def criteria() -> list[Criterion]:
    """All criteria; the cells of the first ones are the most wanted."""
    return [
        *(Criterion(f"latency/{target}", f"geometric mean of cycles over the bound with 2 MiB <= {limit}, 22 networks",
                    partial(latency, target, limit)) for target, limit in LIMITS.items()),
        *(Criterion(f"recurrent/{target}", "cycles over the bound of mnist_lstm and dtln with 2 MiB <= 3",
                    partial(recurrent, target, 3.0)) for target in SLOW_FLASH),
        *(Criterion(f"goldens/{target}", "27 networks give the golden outputs, all five samples",
                    partial(goldens, target)) for target in SLOW_FLASH),
        Criterion("weights", "stored weights <= 1.05 x entropy on >= 23 networks, never above the original", weights),
        Criterion("offchip", "off-chip bytes without the stream <= Vela's fast column on >= 22 networks", offchip),
        Criterion("stream", "instructions and descriptors of xtensa_mbv2_100_224 <= 1.3 x 17.8 KB", stream),
        Criterion("memory", "--optimize memory: peak <= Vela's small column on >= 17 of the 18 of main, mean <= 0.85",
                  memory),
        *(Criterion(f"small/{target}", "cycles over the bound with Vela's small column as budget: mean of main <= 2.0",
                    partial(small, target)) for target in SLOW_FLASH),
        Criterion("policies/512KiB", "cycles of greedy >= 1.25 x and of layerwise >= 1.6 x those of search, 512 KiB",
                  partial(policies, AVERAGED, False)),
        Criterion("policies/small", "the same with Vela's small column as budget", partial(policies, (MAIN,), True)),
        Criterion("greedy", "greedy: geometric mean of cycles over the bound with 2 MiB <= 2.3", greedy),
        Criterion("monotone", "eight budgets from the smallest to 2 MiB: never more cycles with more memory", monotone),
        Criterion("infeasible", "half of the smallest budget: exit status 1, what is needed and what is live",
                  infeasible),
        Criterion("exact", "every program above gives the golden outputs, whatever its budget and policy", exact),
    ]  # fmt: skip


def latency(target: str, limit: float, measure: Measure) -> Verdict:
    """Cycles over the bound of the networks that are averaged; the others are measured for the tables."""
    for anchor in anchors().values():
        measure(Cell(anchor.model, target, FULL_BYTES))
    return averaged(of_groups(*AVERAGED), lambda anchor: ratio(measure, anchor, target, FULL_BYTES), limit)


def recurrent(target: str, limit: float, measure: Measure) -> Verdict:
    """Each of the recurrent networks keeps the limit."""
    ratios, missing = split(of_groups(RECURRENT), lambda anchor: ratio(measure, anchor, target, FULL_BYTES))
    figures = {"geometric_mean": mean(ratios.values()), "limit": limit, "no_program": missing, "ratios": ratios}
    return Verdict(not missing and all(value <= limit for value in ratios.values()), figures)


def goldens(target: str, measure: Measure) -> Verdict:
    """Every output element of all samples."""
    records = {name: measure(Cell(name, target, FULL_BYTES)) for name in anchors()}
    there = {name: record for name, record in records.items() if not record["status"]}
    different = {name: record["differ"] for name, record in there.items() if is_wrong(record)}
    samples = sum(record["samples"] for record in there.values())
    missing = [name for name in records if name not in there]
    figures = {"networks": len(there), "samples": samples, "differ": different, "no_program": missing}
    return Verdict(not missing and not different and samples == 5 * len(records), figures)


def base(measure: Measure) -> dict[str, Record]:
    """Records of the networks that compile for the reference target with 2 MiB."""
    found = {name: measure(Cell(name, REFERENCE, FULL_BYTES)) for name in anchors()}
    return {name: record for name, record in found.items() if not record["status"]}


def weights(measure: Measure) -> Verdict:
    """Stored weights, code tables included, over entropy and over the original bytes."""
    stored = {name: record["weights_bytes"] for name, record in base(measure).items()}
    ratios = {name: round(n_bytes / anchors()[name].entropy_bytes, 4) for name, n_bytes in stored.items()}
    larger = [name for name, n_bytes in stored.items() if n_bytes > anchors()[name].weight_bytes]
    within = sum(ratio <= 1.05 for ratio in ratios.values())
    figures = {"within_5_percent": within, "required": 23, "of": len(anchors()), "above_original": larger}
    return Verdict(within >= 23 and not larger, figures | {"ratios": ratios})


def offchip(measure: Measure) -> Verdict:
    """Bytes read from flash, without instructions and descriptors, over those of Vela."""
    read = {name: record["offchip_data_bytes"] for name, record in base(measure).items()}
    ratios = {name: round(n_bytes / anchors()[name].vela_fast_offchip_bytes, 4) for name, n_bytes in read.items()}
    fewer = sum(ratio <= 1 for ratio in ratios.values())
    return Verdict(fewer >= 22, {"at_most_vela": fewer, "required": 22, "of": len(anchors()), "ratios": ratios})


def stream(measure: Measure) -> Verdict:
    """Bytes of instructions and descriptors of MobileNetV2."""
    limit = int(1.3 * VELA_STREAM_BYTES)
    records = {target: measure(Cell("xtensa_mbv2_100_224", target, FULL_BYTES)) for target in SLOW_FLASH}
    figures = {target: record.get("stream_bytes") for target, record in records.items()}
    return Verdict(all(is_at_most(n_bytes, limit) for n_bytes in figures.values()), figures | {"limit": limit})


def smallest(measure: Measure, network: str) -> Record:
    """The record of the smallest peak that the search finds."""
    return measure(Cell(network, REFERENCE, FULL_BYTES, MEMORY))


def memory(measure: Measure) -> Verdict:
    """Peaks over those of Vela when it optimizes for size."""

    def over_vela(anchor: Anchor) -> float | None:
        record = smallest(measure, anchor.model)
        return None if record["status"] else float(record["sram_peak_bytes"] / anchor.vela_small_sram_bytes)

    ratios, missing = split(of_groups(MAIN), over_vela)
    fewer, found = sum(ratio <= 1 for ratio in ratios.values()), mean(ratios.values())
    figures = {"at_most_vela": fewer, "required": 17, "geometric_mean": found, "limit": 0.85}
    return Verdict(fewer >= 17 and is_at_most(found, 0.85), figures | {"no_program": missing, "ratios": ratios})


def small(target: str, measure: Measure) -> Verdict:
    """Cycles over the bound within the memory of Vela's smallest schedule."""
    return averaged(of_groups(MAIN), lambda anchor: ratio(measure, anchor, target, anchor.vela_small_sram_bytes), 2.0)


def policies(groups: tuple[str, ...], is_small: bool, measure: Measure) -> Verdict:
    """Cycles of the simpler policies over those of the search; a policy that finds no program has no ratio. Over the
    certificate of the search they are what the best of all schedules could reach at most."""

    def figure(policy: str, anchor: Anchor, key: str = "cycles") -> float | None:
        budget = anchor.vela_small_sram_bytes if is_small else HALF_BYTES
        return measure(Cell(anchor.model, REFERENCE, budget, LATENCY, policy)).get(key)

    networks = of_groups(*groups)
    ours, missing = split(networks, partial(figure, SEARCH))
    certified = split(networks, partial(figure, SEARCH, key="lower_bound"))[0]
    ok, figures = not missing, Figures(no_program=missing)
    for policy, limit in ((GREEDY, 1.25), (LAYERWISE, 1.6)):
        theirs, without = split(networks, partial(figure, policy))
        ratios = {name: round(theirs[name] / ours[name], 4) for name in ours if name in theirs}
        found = mean(ratios.values())
        ok = ok and found is not None and found >= limit
        reachable = mean(theirs[name] / certified[name] for name in certified if name in theirs)
        figures |= {f"{policy}_mean": found, f"{policy}_at_least": limit, f"{policy}_reachable": reachable}
        figures |= {f"{policy}_has_no_program": without, f"{policy}_ratios": ratios}
    return Verdict(ok, figures)


def greedy(measure: Measure) -> Verdict:
    """The simpler policy is a fair one: not far from the bound. Layer by layer is measured for the table."""
    for anchor in of_groups(*AVERAGED):
        measure(Cell(anchor.model, REFERENCE, FULL_BYTES, LATENCY, LAYERWISE))
    return averaged(of_groups(*AVERAGED), lambda anchor: ratio(measure, anchor, REFERENCE, FULL_BYTES, GREEDY), 2.3)


def budgets(smallest_bytes: int) -> list[int]:
    """Budgets from the smallest to 2 MiB in equal ratios, multiples of 16."""
    factor = (FULL_BYTES / smallest_bytes) ** (1 / (N_BUDGETS - 1))
    between = [-(-round(smallest_bytes * factor**i) // 16) * 16 for i in range(1, N_BUDGETS - 1)]
    return [smallest_bytes, *between, FULL_BYTES]


def ladder(measure: Measure, network: str) -> dict[int, int | None]:
    """Cycles at each budget, None where there is no program; empty for a network that does not compile."""
    record = smallest(measure, network)
    if record["status"]:
        return {}
    cells = [Cell(network, REFERENCE, budget) for budget in budgets(record["sram_peak_bytes"])]
    return {cell.sram_bytes: measure(cell).get("cycles") for cell in cells}


def monotone(measure: Measure) -> Verdict:
    """More memory never costs cycles, and every budget from the smallest peak on has a program."""
    ladders = {name: ladder(measure, name) for name in anchors()}
    rises = {name: worst_rise([value for value in steps.values() if value]) for name, steps in ladders.items()}
    figures: Figures = {
        "networks": sum(bool(steps) for steps in ladders.values()),
        "not_monotone": {name: round(rise, 6) for name, rise in rises.items() if rise > 1},
        "budgets_without_program": {name: n for name, n in map(without_program, ladders.items()) if n},
    }
    return Verdict(not figures["not_monotone"] and not figures["budgets_without_program"], figures)


def worst_rise(cycles: list[int]) -> float:
    """The largest ratio of cycles to those with less memory; 1 when they never rise."""
    return max((max(cycles[i:]) / cycles[i] for i in range(len(cycles))), default=1.0)


def without_program(ladder: tuple[str, dict[int, int | None]]) -> tuple[str, int]:
    """How many budgets of a network have no program; all of them when the network does not compile."""
    name, steps = ladder
    return name, sum(value is None for value in steps.values()) if steps else N_BUDGETS


EXPLANATION = re.compile(r"needs (\d+) bytes of sram, available (\d+).*live at the peak: .*hint: ", re.DOTALL)


def infeasible(measure: Measure) -> Verdict:
    """A budget that cannot be met ends with status 1, no program, and what is needed and live."""
    explained, wrong = 0, {}
    for name in anchors():
        record = smallest(measure, name)
        if record["status"]:
            wrong[name] = "not compiled"
            continue
        cell = Cell(name, REFERENCE, record["sram_peak_bytes"] // 2)
        failed = measure(cell)
        said = EXPLANATION.search(failed.get("error", ""))
        if failed["status"] == 1 and said and int(said[1]) > int(said[2]) == cell.sram_bytes and not failed["left"]:
            explained += 1
        else:
            wrong[name] = failed.get("error", "compiled")[:200]
    return Verdict(not wrong, {"explained": explained, "of": len(anchors()), "wrong": wrong})


def every_record(measure: Measure) -> dict[Cell, Record]:
    """The records of all cells that the other criteria ask for."""
    seen: dict[Cell, Record] = {}

    def remember(cell: Cell) -> Record:
        seen[cell] = measure(cell)
        return seen[cell]

    for criterion in criteria():
        if criterion.judge is not exact:
            criterion.judge(remember)
    return seen


def is_wrong(record: Record) -> bool:
    """Whether an output is not the golden one, or not that of the integer reference graph where it was asked."""
    return bool(record["differ"] != 0 or record.get("check") == "differs")


def exact(measure: Measure) -> Verdict:
    """No output differs in any cell, every peak is within its budget, and nothing ends in a crash."""
    found = every_record(measure)
    programs = {f"{cell.network} {cell.key}": (cell, record) for cell, record in found.items() if not record["status"]}
    crashed = [f"{cell.network} {cell.key}" for cell, row in found.items() if row["status"] not in (DONE, CANNOT)]
    figures = {
        "programs": len(programs),
        "samples": sum(record["samples"] for _, record in programs.values()),
        "differ": [name for name, (_, record) in programs.items() if is_wrong(record)],
        "above_budget": [name for name, (cell, row) in programs.items() if row["sram_peak_bytes"] > cell.sram_bytes],
        "crashed_or_not_measured": crashed,
    }
    return Verdict(not (figures["differ"] or figures["above_budget"] or crashed), figures)
