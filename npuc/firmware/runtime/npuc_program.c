/* Reads containers (docs/container.md) and trusts nothing: every offset and length is checked before it is used. */
#include "npuc_program.h"

#include <stddef.h>

#include "npuc_calls.h"
#include "npuc_isa.h"

#define MAGIC 0x4355504eu
#define HEADER_CRC_OFFSET (NPUC_CONTAINER_HEADER_HEADER_CRC_BIT / 8u)
#define ADDRESS_OFFSET_BITS 30u

/* An unsigned field of a record. */
#define FIELD(record, name) npuc_bits((record), NPUC_##name##_BIT, NPUC_##name##_BITS)

/* CRC-32 of IEEE 802.3, four bits at a time; begins and ends with the complement. */
static uint32_t crc32(uint32_t crc, const uint8_t *bytes, uint32_t n_bytes)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
    };
    crc = ~crc;
    for (uint32_t i = 0; i < n_bytes; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15u];
        crc = crc >> 4 ^ table[crc & 15u];
    }
    return ~crc;
}

static npuc_status require(npuc_status failure, const char *what, uint64_t device, uint64_t program)
{
    if (device == program) {
        return NPUC_OK;
    }
    npuc_hook_mismatch(what, device, program);
    return failure;
}

static const uint8_t *section_entry(const uint8_t *bytes, uint32_t index)
{
    return bytes + NPUC_CONTAINER_HEADER_BYTES + index * NPUC_SECTION_ENTRY_BYTES;
}

static npuc_status check_header(const uint8_t *bytes, uint32_t n_bytes, uint32_t version, uint64_t fingerprint)
{
    npuc_status status = require(NPUC_ERROR_BAD_PROGRAM, "magic", MAGIC, FIELD(bytes, CONTAINER_HEADER_MAGIC));
    if (status == NPUC_OK) {
        status = require(NPUC_ERROR_CONTAINER_VERSION, "container version", version >> 16,
                         FIELD(bytes, CONTAINER_HEADER_CONTAINER_VERSION));
    }
    if (status == NPUC_OK) {
        const uint32_t crc = crc32(crc32(0, bytes, HEADER_CRC_OFFSET), bytes + NPUC_CONTAINER_HEADER_BYTES,
                                   NPUC_CONSTANTS_OFFSET - NPUC_CONTAINER_HEADER_BYTES);
        status = require(NPUC_ERROR_CHECKSUM, "header checksum", crc, FIELD(bytes, CONTAINER_HEADER_HEADER_CRC));
    }
    const uint32_t major = FIELD(bytes, CONTAINER_HEADER_ISA_MAJOR);
    const uint32_t minor = FIELD(bytes, CONTAINER_HEADER_ISA_MINOR);
    if (status == NPUC_OK && (major != (version >> 8 & 0xffu) || minor > (version & 0xffu))) {
        status = require(NPUC_ERROR_ISA_VERSION, "isa version", version & 0xffffu, major << 8 | minor);
    }
    if (status == NPUC_OK) {
        const uint64_t low = npuc_bits(bytes, NPUC_CONTAINER_HEADER_FINGERPRINT_BIT, 32u);
        const uint64_t high = npuc_bits(bytes, NPUC_CONTAINER_HEADER_FINGERPRINT_BIT + 32u, 32u);
        status = require(NPUC_ERROR_FINGERPRINT, "fingerprint", fingerprint, high << 32 | low);
    }
    if (status == NPUC_OK) {
        status = require(NPUC_ERROR_TRUNCATED, "program bytes", n_bytes, FIELD(bytes, CONTAINER_HEADER_TOTAL_BYTES));
    }
    return status;
}

static npuc_status check_section(const uint8_t *bytes, uint32_t n_bytes, const uint8_t *entry)
{
    const uint32_t offset = FIELD(entry, SECTION_ENTRY_OFFSET);
    const uint32_t length = FIELD(entry, SECTION_ENTRY_LENGTH);
    if (offset > n_bytes || length > n_bytes - offset) {
        npuc_hook_mismatch("section end", n_bytes, (uint64_t)offset + length);
        return NPUC_ERROR_TRUNCATED;
    }
    return require(NPUC_ERROR_CHECKSUM, "section checksum", crc32(0, bytes + offset, length), FIELD(entry, SECTION_ENTRY_CRC));
}

npuc_status npuc_check_program(const npuc_program *program, uint32_t version, uint64_t fingerprint)
{
    const uint8_t *bytes = (const uint8_t *)program->words;
    npuc_status status = require(NPUC_ERROR_ABI, "driver abi", NPUC_ABI, program->abi);
    if (status == NPUC_OK && (uintptr_t)bytes % NPUC_ARENA_ALIGNMENT != 0u) {
        status = NPUC_ERROR_MISALIGNED;
    }
    if (status == NPUC_OK && program->n_bytes < NPUC_CONSTANTS_OFFSET) {
        npuc_hook_mismatch("program bytes", program->n_bytes, NPUC_CONSTANTS_OFFSET);
        status = NPUC_ERROR_TRUNCATED;
    }
    if (status == NPUC_OK) {
        status = check_header(bytes, program->n_bytes, version, fingerprint);
    }
    for (uint32_t i = 0; status == NPUC_OK && i < NPUC_MAX_SECTIONS; i++) {
        status = check_section(bytes, program->n_bytes, section_entry(bytes, i));
    }
    uint32_t n_bytes = 0;
    const uint8_t *calls = status == NPUC_OK ? npuc_find_section(program, NPUC_SECTION_ARM_CALLS, &n_bytes) : NULL;
    return calls != NULL ? npuc_check_calls(program, calls, n_bytes) : status;
}

const uint8_t *npuc_find_section(const npuc_program *program, uint32_t kind, uint32_t *n_bytes)
{
    const uint8_t *bytes = (const uint8_t *)program->words;
    for (uint32_t i = 0; i < NPUC_MAX_SECTIONS; i++) {
        const uint8_t *entry = section_entry(bytes, i);
        if (FIELD(entry, SECTION_ENTRY_KIND) == kind) {
            *n_bytes = FIELD(entry, SECTION_ENTRY_LENGTH);
            return bytes + FIELD(entry, SECTION_ENTRY_OFFSET);
        }
    }
    return NULL;
}

/* One state: its bytes lie inside the section and inside the arena. */
static npuc_status write_state(const uint8_t *entry, const uint8_t *images, uint32_t images_bytes,
                               const npuc_program *program, uint8_t *arena)
{
    const uint32_t address = FIELD(entry, STATE_ENTRY_ADDRESS);
    const uint32_t offset = address & ((1u << ADDRESS_OFFSET_BITS) - 1u);
    const uint32_t n_bytes = FIELD(entry, STATE_ENTRY_N_BYTES);
    const uint32_t first = FIELD(entry, STATE_ENTRY_IMAGE_OFFSET);
    if (address >> ADDRESS_OFFSET_BITS != NPUC_MEMORY_SRAM) {
        return NPUC_ERROR_UNSUPPORTED;
    }
    if (first > images_bytes || n_bytes > images_bytes - first || offset > program->arena_bytes ||
        n_bytes > program->arena_bytes - offset) {
        return NPUC_ERROR_BAD_PROGRAM;
    }
    for (uint32_t i = 0; i < n_bytes; i++) {
        arena[offset + i] = images[first + i];
    }
    return NPUC_OK;
}

static npuc_status write_section(const uint8_t *section, uint32_t n_bytes, const npuc_program *program, uint8_t *arena)
{
    if (n_bytes < NPUC_STATE_HEADER_BYTES) {
        return NPUC_ERROR_BAD_PROGRAM;
    }
    const uint32_t count = FIELD(section, STATE_HEADER_ENTRY_COUNT);
    if (count > (n_bytes - NPUC_STATE_HEADER_BYTES) / NPUC_STATE_ENTRY_BYTES) {
        return NPUC_ERROR_BAD_PROGRAM;
    }
    const uint8_t *entries = section + NPUC_STATE_HEADER_BYTES;
    const uint32_t images_offset = NPUC_STATE_HEADER_BYTES + count * NPUC_STATE_ENTRY_BYTES;
    npuc_status status = NPUC_OK;
    for (uint32_t i = 0; status == NPUC_OK && i < count; i++) {
        status = write_state(entries + i * NPUC_STATE_ENTRY_BYTES, section + images_offset, n_bytes - images_offset,
                             program, arena);
    }
    return status;
}

npuc_status npuc_write_states(const npuc_program *program, uint8_t *arena)
{
    uint32_t n_bytes = 0;
    const uint8_t *section = npuc_find_section(program, NPUC_SECTION_STATE, &n_bytes);
    return section != NULL ? write_section(section, n_bytes, program, arena) : NPUC_OK;
}
