"""The float boundary: arrays of a user's types and any number of samples around a machine of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from isa import arithmetic
from isa.container import IoEntry
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.memory import Array


def run_samples(machine: Machine, arrays: Mapping[str, Array], *, independent: bool = False) -> dict[str, Array]:
    """Run all samples in order; axis 0 of every array is samples x the model's batch.

    An array whose type is the stored one is used raw, any other is converted to float32 and quantized. Outputs of a
    float model are float32, others the stored integers. `independent` resets the machine before every sample.
    """
    if arrays.keys() != machine.inputs.keys():
        raise SimulatorFault(f"inputs are {', '.join(arrays)}, the program has {', '.join(machine.inputs)}")
    results = []
    for sample in stored_samples(machine.inputs, arrays):
        if independent:
            machine.reset()
        results.append(machine.run(sample))
    return host_outputs(machine.outputs, results)


def stored_samples(inputs: Mapping[str, IoEntry], arrays: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Inputs of each inference in stored type."""
    stored = {name: to_stored(entry, arrays[name]) for name, entry in inputs.items()}
    counts = {name: len(array) for name, array in stored.items()}
    if len(set(counts.values())) > 1:
        raise SimulatorFault(f"inputs have different numbers of samples: {counts}", "give as many for each input")
    for index in range(next(iter(counts.values()), 1)):
        yield {name: array[index] for name, array in stored.items()}


def host_outputs(outputs: Mapping[str, IoEntry], results: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Outputs of all inferences along axis 0, as the user of the source model sees them."""
    return {
        name: to_host(entry, _stack([result[name] for result in results], entry)) for name, entry in outputs.items()
    }


def to_stored(entry: IoEntry, array: Array) -> Array:
    """[samples, *shape of the entry] in stored type."""
    batch, rest = (entry.shape[0], entry.shape[1:]) if entry.shape else (1, ())
    if array.ndim == 0 or array.shape[1:] != rest or len(array) % batch:
        raise SimulatorFault(
            f"input {entry.name} has shape {list(array.shape)}, "
            f"the program wants {['samples x ' + str(batch), *rest]}".replace("'", "")
        )
    array = array.reshape(-1, *entry.shape)
    if array.dtype == np.dtype(entry.dtype):
        return array
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise SimulatorFault(f"input {entry.name} has type {array.dtype}, allowed: integers and real numbers")
    if entry.dtype == "float32":
        return array.astype(np.float32)
    if not entry.scale:
        raise SimulatorFault(f"input {entry.name} has type {array.dtype}, the program wants {entry.dtype}")
    real = array.astype(np.float32)
    try:
        return arithmetic.quantize(real, entry.scale, entry.zero_point, entry.dtype, entry.half_even)
    except ValueError as error:
        raise SimulatorFault(f"input {entry.name}: {error}") from None


def to_host(entry: IoEntry, array: Array) -> Array:
    """An array in stored type as the user sees it."""
    if entry.host_dtype == "float32" and entry.dtype != "float32" and entry.scale:
        return arithmetic.dequantize(array, entry.scale, entry.zero_point)
    return array


def _stack(parts: list[Array], entry: IoEntry) -> Array:
    if not parts:
        return np.empty((0, *entry.shape[1:]), entry.dtype)
    return np.concatenate(parts) if entry.shape else np.stack(parts)
