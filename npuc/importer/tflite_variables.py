"""Resource variables: values that outlive a call of the graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.graph.graph import State
from npuc.graph.types import Array
from npuc.importer.tflite_model import TfliteModel, TfliteTensor
from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.importer.tflite_storage import signed


def import_handle(site: Site) -> None:
    """A handle is known by its tensor; what it names is looked up where it is used."""
    _variable(site.builder.model, site.output.index)


def import_call_once(site: Site) -> None:
    """Runs an initialization, of which only assignments of constants are supported."""
    _initial_contents(site.builder.model)


def import_read(site: Site) -> None:
    """What the variable holds: what was assigned before in this call, else the state."""
    builder, name = site.builder, _variable(site.builder.model, site.input(0).index)
    site.quant(site.output)
    if name not in builder.states:
        builder.states[name] = _new_state(site, name)
    builder.set_plain(site.output, builder.states[name].output)


def import_assign(site: Site) -> None:
    """The variable holds another value from here on."""
    builder, name = site.builder, _variable(site.builder.model, site.input(0).index)
    if name not in builder.states:
        raise Unsupported(f"variable {name} is assigned before it is read")
    builder.states[name] = replace(builder.states[name], output=builder.plain(site.input(1)))


def _new_state(site: Site, name: str) -> State:
    """A state that nothing has written yet: zeros where no initialization assigns it."""
    builder = site.builder
    initial = _initial_contents(builder.model).get(name)
    value = builder.declare(replace(site.output, name=name, dtype="INT8"))
    shape = builder.values[value].shape
    contents = signed(initial) if initial is not None else np.zeros(shape, np.int8)
    if contents.shape != shape:
        raise ValueError(f"variable {name} is {list(contents.shape)} at first, {list(shape)} later")
    return State(value, value, tuple(contents.reshape(-1).tolist()))


def _variable(model: TfliteModel, handle: int) -> str:
    """Name of the variable that a tensor is the handle of."""
    for operator in model.operators:
        if operator.kind == "VAR_HANDLE" and handle in operator.outputs:
            return str(operator.options.get("SharedName") or f"variable {handle}")
    raise Unsupported("a handle that depends on the inputs")


def _initial_contents(model: TfliteModel) -> dict[str, Array]:
    """What the subgraphs that are called once assign, by variable."""
    contents = {}
    for operator in model.operators:
        if operator.kind != "CALL_ONCE":
            continue
        index = int(operator.options.get("InitSubgraphIndex", 0)) - 1
        if not 0 <= index < len(model.subgraphs):
            raise ValueError(f"it calls subgraph {index + 1}, there are {len(model.subgraphs) + 1}")
        contents.update(_assignments(model.subgraphs[index]))
    return contents


def _assignments(subgraph: TfliteModel) -> dict[str, Array]:
    contents = {}
    for operator in subgraph.operators:
        if operator.kind == "ASSIGN_VARIABLE" and len(operator.inputs) == 2:
            tensor: TfliteTensor = subgraph.tensors[operator.inputs[1]]
            if tensor.data is None:
                raise Unsupported("an initialization that computes")
            contents[_variable(subgraph, operator.inputs[0])] = tensor.data
        elif operator.kind != "VAR_HANDLE":
            raise Unsupported(f"an initialization with {operator.kind}")
    return contents


RULES: dict[str, Rule] = {
    "ASSIGN_VARIABLE": import_assign,
    "CALL_ONCE": import_call_once,
    "READ_VARIABLE": import_read,
    "VAR_HANDLE": import_handle,
}
