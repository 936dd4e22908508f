"""The text form of programs: one line an instruction or descriptor, exact in both directions.

    .layer at=flash:0x1280 words=14 ofm_base=sram:0x400 ofm_pixel=16 kernel_h=3 clamp_low=-128 clamp_high=127
    desc.load slot=3 words=14 address=flash:0x1280
    mac.conv slot=3 n=0 y=0 x=0 c=0 height=8 width=8 channels=16 ... weights=flash:0x140 ; wait dma-in>=4 vec>=2
    wait.vec ; wait mac>=7 ; more arm>=1                # a comment

`.layer` and `.dma` give the fields of a descriptor that are not stored as zero, `.data` gives bytes in hexadecimal;
`at` is the flash address and `words` the stored length in 8-byte words. An instruction gives all its fields. Conditions
follow `; wait` and, for the `wait` instructions, `; more`; `none` holds the place of an unused one before a used one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isa.codec import Instruction, decode_all, encode, is_condition
from isa.descriptors import DESCRIPTORS, Memory
from isa.errors import IsaError
from isa.fields import Field, RecordSpec
from isa.instructions import BY_MNEMONIC, CONDITIONS, NO_CONDITION, InstructionSpec, Queue
from isa.record import WORD_BYTES, decode_record, encode_record

MAX_DESCRIPTOR_BYTES = 1 << 24
"""Longest span of the `.layer`, `.dma` and `.data` lines of one listing."""

QUEUE_NAMES = {queue.value: queue.name.lower().replace("_", "-") for queue in Queue if queue is not Queue.FETCH}

_QUEUE_NUMBERS = {name: number for number, name in QUEUE_NAMES.items()}
_MEMORIES = {memory.name.lower(): memory for memory in Memory}
_RECORDS = {f".{spec.name}": spec for spec in DESCRIPTORS}
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,18})")
_CONDITION = re.compile(r"([a-z-]+)>=([0-9]{1,5})")
_PLACE = (
    Field("at", 32, "flash address of the descriptor", unit="address"),
    Field("words", 6, "stored length", unit="word", bias=1),
)
_DATA_LINE_BYTES = 32


@dataclass(frozen=True)
class Assembly:
    """What a listing stands for: instructions, and the descriptors from flash address `descriptors_base` on."""

    instructions: bytes
    descriptors: bytes
    descriptors_base: int


def assemble(text: str) -> bytes:
    """The instructions of a listing; IsaError names the line, the token and what is allowed."""
    return assemble_listing(text).instructions


def assemble_listing(text: str) -> Assembly:
    """Instructions and descriptors of a listing; IsaError names the line, the token and what is allowed."""
    code = bytearray()
    image: dict[int, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        statement = line.partition("#")[0].strip()
        try:
            if statement.startswith("."):
                _store(image, *_directive(statement))
            elif statement:
                code += encode(_instruction(statement))
        except IsaError as error:
            raise IsaError(f"line {number}: {error}") from None
    base = min(image, default=0)
    span = max(image, default=-WORD_BYTES) + WORD_BYTES - base
    if span > MAX_DESCRIPTOR_BYTES:
        raise IsaError(f"descriptors span {span} bytes of flash, allowed: {MAX_DESCRIPTOR_BYTES}")
    words = (image.get(base + offset, bytes(WORD_BYTES)) for offset in range(0, span, WORD_BYTES))
    return Assembly(bytes(code), b"".join(words), base)


def disassemble(
    code: bytes, descriptors: bytes = b"", descriptors_base: int = 0, notes: Mapping[int, str] | None = None
) -> str:
    """The listing of a program; `assemble_listing` of it gives the same bytes.

    `descriptors` lie at flash address `descriptors_base`; each is printed before the first `desc.load` that reads it.
    `notes` are comments by index of instruction.
    """
    if descriptors_base % WORD_BYTES or len(descriptors) % WORD_BYTES:
        raise IsaError(f"{len(descriptors)} bytes of descriptors at {descriptors_base:#x}, allowed: whole 8-byte words")
    instructions = [instruction for _, instruction in decode_all(code)]
    kinds = _descriptor_kinds(instructions)
    section = _DescriptorSection(descriptors, descriptors_base)
    lines = []
    for i, instruction in enumerate(instructions):
        if instruction.mnemonic == "desc.load":
            place = _load_place(instruction)
            lines += section.take(place, kinds.get(place))
        line = format_instruction(instruction)
        note = " ".join((notes or {}).get(i, "").split())
        lines.append(f"{line}  # {note}" if note else line)
    return "".join(f"{line}\n" for line in [*lines, *section.rest()])


def format_instruction(instruction: Instruction) -> str:
    """One line without a comment."""
    values = instruction.values
    words = [instruction.mnemonic]
    shown = (f for f in instruction.spec.fields if not is_condition(f) and not (f.is_optional and not values[f.name]))
    words += [f"{f.name}={_format(f, values[f.name])}" for f in shown]
    for kind in _condition_kinds(instruction.spec):
        pairs = [(values[f"{kind}{i}_queue"], values[f"{kind}{i}_count"]) for i in range(CONDITIONS)]
        while pairs and pairs[-1][0] == NO_CONDITION:
            pairs.pop()
        if pairs:
            words += [";", kind, *("none" if q == NO_CONDITION else f"{QUEUE_NAMES[q]}>={n}" for q, n in pairs)]
    return " ".join(words)


def format_record(spec: RecordSpec, values: Mapping[str, int]) -> str:
    """`name=value` of every field that is not stored as zero."""
    shown = (f for f in spec.fields if not f.is_reserved and values[f.name] != f.bias)
    return " ".join(f"{f.name}={_format(f, values[f.name])}" for f in shown)


def _format(spec: Field, value: int) -> str:
    if spec.unit != "address":
        return str(value)
    memory, offset = value >> 30, value & ((1 << 30) - 1)
    return f"{Memory(memory).name.lower()}:{offset:#x}" if memory in Memory.__members__.values() else f"{value:#x}"


def _condition_kinds(spec: InstructionSpec) -> tuple[str, ...]:
    return ("wait", "more") if any(map(is_condition, spec.fields)) else ("wait",)


def _load_place(instruction: Instruction) -> tuple[int, int]:
    return instruction.values["address"], instruction.values["words"]


def _descriptor_kinds(instructions: Iterable[Instruction]) -> dict[tuple[int, int], RecordSpec]:
    """What the first instruction that captures it takes the descriptor at (address, words) for."""
    kinds: dict[tuple[int, int], RecordSpec] = {}
    slots: dict[int, tuple[int, int]] = {}
    for instruction in instructions:
        if instruction.mnemonic == "desc.load":
            slots[instruction.values["slot"]] = _load_place(instruction)
        elif instruction.spec.descriptor and instruction.values["slot"] in slots:
            kinds.setdefault(slots[instruction.values["slot"]], instruction.spec.descriptor)
    return kinds


@dataclass
class _DescriptorSection:
    """The descriptors that are still to be printed."""

    data: bytes
    base: int
    printed: set[int] = field(default_factory=set)
    """Offsets of words that a line has given."""

    def take(self, place: tuple[int, int], kind: RecordSpec | None) -> list[str]:
        """The line of the descriptor at (address, words), none when it was printed or is not all in this section."""
        offset, length = place[0] - self.base, place[1] * WORD_BYTES
        words = range(offset, offset + length, WORD_BYTES)
        outside = offset < 0 or offset + length > len(self.data)
        if kind is None or outside or offset % WORD_BYTES or self.printed.issuperset(words):
            return []
        try:
            values = decode_record(kind, self.data[offset : offset + length])
        except IsaError:
            return []
        self.printed.update(words)
        at = _format(_PLACE[0], place[0])
        return [f".{kind.name} at={at} words={place[1]} {format_record(kind, values)}".rstrip()]

    def rest(self) -> list[str]:
        """`.data` lines of all bytes that no descriptor has given."""
        lines: list[str] = []
        run = b""
        for offset in range(0, len(self.data) + WORD_BYTES, WORD_BYTES):
            word = b"" if offset in self.printed else self.data[offset : offset + WORD_BYTES]
            if run and (not word or len(run) == _DATA_LINE_BYTES):
                lines.append(f".data at={_format(_PLACE[0], self.base + offset - len(run))} {run.hex()}")
                run = b""
            run += word
        return lines


def _store(image: dict[int, bytes], at: int, data: bytes) -> None:
    if at % WORD_BYTES or at + len(data) > 1 << 30:
        raise IsaError(f"at = {at:#x}, allowed: a flash address that is a multiple of {WORD_BYTES}")
    for i in range(0, len(data), WORD_BYTES):
        word = data[i : i + WORD_BYTES]
        if image.setdefault(at + i, word) != word:
            raise IsaError(f"flash:{at + i:#x} has other contents on a line before")


def _directive(statement: str) -> tuple[int, bytes]:
    """(flash address, bytes) of a `.layer`, `.dma` or `.data` line."""
    name, *tokens = statement.split()
    if name == ".data":
        return _data(tokens)
    spec = _RECORDS.get(name)
    if spec is None:
        raise IsaError(f"{name!r}, allowed: {', '.join([*_RECORDS, '.data'])}")
    values = _assignments(tokens, [*_PLACE, *(f for f in spec.fields if not f.is_reserved)])
    if "at" not in values:
        raise IsaError(f"{name}: at=flash:<offset> is missing")
    at, n_words = values.pop("at"), values.pop("words", 0)
    data = encode_record(spec, values, trim=True)
    if n_words and len(data) > n_words * WORD_BYTES:
        raise IsaError(f"{name}: words = {n_words}, the fields need {len(data) // WORD_BYTES}")
    return at, data.ljust(n_words * WORD_BYTES, b"\0")


def _data(tokens: list[str]) -> tuple[int, bytes]:
    digits = "".join(tokens[1:])
    if not tokens or len(digits) % (2 * WORD_BYTES) or not re.fullmatch("[0-9a-fA-F]+", digits):
        raise IsaError(f".data: {digits[:40]!r}, allowed: at=flash:<offset>, then whole 8-byte words in hexadecimal")
    values = _assignments(tokens[:1], [_PLACE[0]])
    return values["at"], bytes.fromhex(digits)


def _instruction(statement: str) -> Instruction:
    head, *clauses = statement.split(";")
    mnemonic, *tokens = head.split() or [""]
    spec = BY_MNEMONIC.get(mnemonic)
    if spec is None:
        raise IsaError(f"{mnemonic!r}, allowed: {', '.join([*BY_MNEMONIC, *_RECORDS, '.data'])}")
    values = _assignments(tokens, [f for f in spec.fields if not is_condition(f)])
    for clause in clauses:
        kind, *conditions = clause.split() or [""]
        allowed = [k for k in _condition_kinds(spec) if f"{k}0_queue" not in values]
        if kind not in allowed:
            raise IsaError(f"{kind!r} after ';', allowed: {' or '.join(allowed) or 'nothing more'}")
        values |= _conditions(kind, conditions)
    return Instruction(mnemonic, values)


def _conditions(kind: str, tokens: list[str]) -> dict[str, int]:
    if not 1 <= len(tokens) <= CONDITIONS:
        raise IsaError(f"{kind} with {len(tokens)} conditions, allowed: 1 to {CONDITIONS}")
    values = {}
    for i, token in enumerate(tokens):
        match = _CONDITION.fullmatch(token)
        queue = _QUEUE_NUMBERS.get(match[1]) if match else NO_CONDITION if token == "none" else None
        if queue is None:
            raise IsaError(f"{token!r}, allowed: <queue>>=<count>, with queue one of {', '.join(_QUEUE_NUMBERS)}")
        values[f"{kind}{i}_queue"] = queue
        values[f"{kind}{i}_count"] = int(match[2]) if match else 0
    return values


def _assignments(tokens: list[str], fields: Iterable[Field]) -> dict[str, int]:
    by_name = {f.name: f for f in fields}
    values: dict[str, int] = {}
    for token in tokens:
        name, sign, text = token.partition("=")
        if name not in by_name or not sign:
            raise IsaError(f"{token!r}, allowed: <field>=<value> with field one of {', '.join(by_name) or '(none)'}")
        if name in values:
            raise IsaError(f"{token!r} gives {name} a second value")
        values[name] = _parse(by_name[name], text, token)
    return values


def _parse(spec: Field, text: str, token: str) -> int:
    memory, colon, offset = text.rpartition(":")
    if colon and (spec.unit != "address" or memory not in _MEMORIES):
        raise IsaError(f"{token!r}, allowed: {_allowed(spec)}")
    if not _INTEGER.fullmatch(offset):
        raise IsaError(f"{token!r}, allowed: {_allowed(spec)}")
    value = int(offset, 16 if "0x" in offset else 10)
    if not colon:
        return value
    if not 0 <= value < 1 << 30:
        raise IsaError(f"{token!r}, allowed: an offset from 0 to {(1 << 30) - 1:#x}")
    return _MEMORIES[memory] << 30 | value


def _allowed(spec: Field) -> str:
    number = f"a number from {spec.low} to {spec.high}"
    return f"{'|'.join(_MEMORIES)}:<offset>, or {number}" if spec.unit == "address" else number
