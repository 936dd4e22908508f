"""The folder of `npuc firmware`: C files of models, runtime, fragments for linker and make; all of it or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from isa.arm_calls import NO_KERNEL, ArmCall, decode_arm_calls
from isa.container import read_container, write_container
from isa.descriptors import Memory, split_address
from isa.header import c_header
from isa.registers import registers_header
from npuc.arm.kernel_spec import KERNEL
from npuc.errors import NpucError, UsageError
from npuc.firmware.kernel_source import kernel_files
from npuc.firmware.layer_end import layer_ends
from npuc.firmware.model_source import (
    Model,
    header_text,
    identifier,
    linker_text,
    makefile_text,
    program_text,
    source_text,
)

STAGE = "firmware"
RUNTIME = Path(__file__).parent / "runtime"
CMAKE = Path(__file__).parent / "cmake"
ZEPHYR = Path(__file__).parent
"""The module of Zephyr: the folder that holds zephyr/module.yml."""
OPTIONAL = ("npuc_float.c", "npuc_weights.c")
"""Sources of the runtime that the driver does without."""
MANIFEST = "npuc.json"
"""Marks a folder of ours, which may be replaced."""


class FirmwareError(NpucError):
    """The program cannot go into firmware, or the folder cannot be written."""


def make_model(data: bytes, name: str, layer_of: Mapping[int, str]) -> Model:
    """Model of a program file, without its reference graph; `layer_of` names the layer of instructions.

    IsaError: the bytes are no program. FirmwareError: it needs what the driver does not do.
    """
    container = replace(read_container(data), reference=b"")
    kernels = called_kernels(decode_arm_calls(container.arm_calls))
    reaches = [_reach(entry.name, entry.address, entry.n_bytes) for entry in container.io]
    peak = container.metadata.get("sram_peak_bytes")
    if not isinstance(peak, int) or not 0 < peak < 1 << 30:
        raise FirmwareError("the program does not say how much sram it needs", stage=STAGE, hint="compile it again")
    stored = write_container(container)
    return Model(identifier(name), container, stored, max(peak, *reaches, 1), layer_ends(container, layer_of), kernels)


def called_kernels(calls: Sequence[ArmCall]) -> tuple[str, ...]:
    """Names of the kernels, by number; FirmwareError for one that this release does not have in that version."""
    known = {(spec.kernel_id, spec.version): name for name, spec in KERNEL.items()}
    called = sorted({(call.kernel, call.version) for call in calls if call.kernel != NO_KERNEL})
    missing = [f"kernel {kernel} of version {version}" for kernel, version in called if (kernel, version) not in known]
    if missing:
        raise FirmwareError(f"the program calls {', '.join(missing)}, which this release does not have", stage=STAGE,
                            hint="compile the model again with this release")  # fmt: skip
    return tuple(known[key] for key in called)


def _reach(name: str, address: int, n_bytes: int) -> int:
    """Bytes of sram up to the end of a tensor."""
    memory, offset = split_address(address)
    if memory is not Memory.SRAM:
        raise FirmwareError(f"{name} lies in {memory.name.lower()}, which the driver does not serve", stage=STAGE,
                            hint="compile for a target without dram")  # fmt: skip
    return offset + n_bytes


def bundle_files(models: Sequence[Model]) -> dict[str, bytes]:
    """Contents of the folder by name; the same models give the same bytes."""
    names = [model.name for model in models]
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(RUNTIME.iterdir())}
    # Without models, the driver is for any that may come.
    files |= kernel_files([name for model in models for name in model.kernels] if models else None)
    runtime = [name for name in files if name.endswith(".c") and name not in OPTIONAL]
    files |= {"npuc_isa.h": c_header(), "npuc_registers.h": registers_header()}
    for model in models:
        made = {
            f"{model.name}.h": header_text(model),
            f"{model.name}.c": source_text(model),
            f"{model.name}_program.c": program_text(model),
            f"{model.name}.json": _json(model_record(model)),
        }
        if made.keys() & {*files, MANIFEST}:
            raise UsageError(f"the name {model.name} is taken by another file", hint="choose one with --name")
        files |= made
    files["npuc.ld"] = linker_text(models)
    files["npuc.mk"] = makefile_text(models, runtime)
    files[MANIFEST] = _json({"schema": "npuc.firmware/1", "models": names, "files": sorted([*files, MANIFEST])})
    return {name: text.encode() for name, text in files.items()}


def model_record(model: Model) -> dict[str, Any]:
    """What a build system may want to know of a model."""
    return {
        "schema": "npuc.model/1",
        "name": model.name,
        "target": model.container.target_name,
        "fingerprint": model.container.fingerprint,
        "program_bytes": len(model.data),
        "program_sha256": hashlib.sha256(model.data).hexdigest(),
        "arena_bytes": model.arena_bytes,
        "kernels": list(model.kernels),
        "tensors": [{**asdict(entry), "c_name": f"{model.name}_{name}", "shape": list(entry.shape),
                     "offset": split_address(entry.address)[1]} for name, entry in model.tensors()],
        "layers": [asdict(layer) for layer in model.layers],
    }  # fmt: skip


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put the files into `folder`, which may be missing, empty or an older one of ours; nothing else is overwritten.

    They are written beside it and renamed; FirmwareError leaves what was there.
    """
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise FirmwareError(f"{folder} is there and was not written by npuc firmware", stage=STAGE,
                            hint="choose a new folder")  # fmt: skip
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as name:
            made = Path(name) / "made"
            made.mkdir()
            for file, content in files.items():
                (made / file).write_bytes(content)
            _swap(made, folder, Path(name) / "old")
    except OSError as error:
        raise FirmwareError(f"{folder}: cannot write: {(error.strerror or str(error)).lower()}", stage=STAGE,
                            hint="choose another folder") from error  # fmt: skip


def _swap(made: Path, folder: Path, old: Path) -> None:
    if folder.exists():
        folder.rename(old)
    try:
        made.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    with contextlib.suppress(OSError):
        shutil.rmtree(old) if old.is_dir() else None
    os.utime(folder)
