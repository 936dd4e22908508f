"""Legal values of every field, drawn at random with the ends of the range favored."""

from collections.abc import Iterable

from hypothesis import strategies as st

from isa.codec import CONDITION_QUEUES, Instruction, is_condition
from isa.fields import Field, RecordSpec
from isa.instructions import INSTRUCTIONS, NO_CONDITION, InstructionSpec


def field_values(field: Field) -> st.SearchStrategy[int]:
    ends = st.sampled_from([field.low, field.high, field.bias])
    return st.one_of(ends, st.integers(field.low, field.high))


def records(fields: Iterable[Field]) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({f.name: field_values(f) for f in fields if not f.is_reserved})


def record_values(spec: RecordSpec) -> st.SearchStrategy[dict[str, int]]:
    return records(spec.fields)


@st.composite
def instructions(draw: st.DrawFn, spec: InstructionSpec | None = None) -> Instruction:
    spec = spec or draw(st.sampled_from(INSTRUCTIONS))
    values = draw(records(f for f in spec.fields if not is_condition(f)))
    for field in spec.record.fields:
        if field.name.endswith("_queue"):
            queue = draw(st.sampled_from(CONDITION_QUEUES))
            count = 0 if queue == NO_CONDITION else draw(st.integers(0, 65535))
            values |= {field.name: queue, field.name.replace("_queue", "_count"): count}
    return Instruction(spec.mnemonic, values)
