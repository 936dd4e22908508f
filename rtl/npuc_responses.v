// The queue of responses of the tensor fetcher: what each word that was requested is, and when it may enter its buffer.
//
// Words come and go in the order of the requests. Buffers are two halves: input of a chunk may come when the array has
// begun the chunk before; weights of a unit (the groups of one chunk that fit in a half) when it has begun the unit before;
// the residual operand of a block when that of two blocks before has been used. Nothing but the input and weights of an
// instruction's first part comes before array and output stage are its own. A word that is early waits here; there are
// places for as many as a latency has cycles, and for the one in hand.

`include "npuc_isa.vh"

module npuc_responses #(
    parameter PLACES = 33,
    parameter WEIGHT_BYTES = 8200            // two halves, and what a word has of the unit behind
) (
    input  wire        clk,
    input  wire        rst,
    // a word that is requested
    input  wire        push,
    input  wire [5:0]  push_kind,            // code table, scales, table, residual operand, weights, input
    input  wire [7:0]  push_number,          // of its chunk or unit in the instruction
    input  wire        push_behind,          // the first part
    input  wire        push_starts,          // the residual operand of a block
    input  wire        push_ends,            // the input of a chunk, or an access of the residual operand
    input  wire [2:0]  push_byte,
    input  wire [3:0]  push_n,               // bytes
    input  wire [11:0] push_place,
    input  wire [2:0]  push_lane,
    output wire        has_space,
    output wire        is_empty,
    input  wire        response,
    input  wire [63:0] response_data,
    // what it waits for
    input  wire        owned,                // array and output stage work on this instruction
    input  wire [7:0]  chunks_begun,         // by the array, with this cycle
    input  wire [7:0]  units_begun,
    input  wire        block_output,         // the output stage is done with a block and its residual operand
    input  wire [31:0] weight_freed,         // bytes since reset
    input  wire        decoded_write,        // weights from the decoder
    input  wire [3:0]  decoded_bytes,
    output wire        decode_room,
    // what enters a buffer; `data` is shifted so that its first byte is the lowest, or the first lane of a word
    output wire [63:0] data,
    output wire [3:0]  n_bytes,
    output wire [11:0] place,
    output wire [7:0]  lanes,
    output wire        code_write,
    output wire        scale_write,
    output wire        table_write,
    output wire        residual_write,
    output wire        weight_write,
    output wire        input_write,
    output wire        chunk_loaded,
    output wire        residual_loaded
);
    localparam TAGS = 64, TAG_BITS = 39;

    reg [TAG_BITS-1:0] tags[0:TAGS-1];
    reg [63:0]         words[0:TAGS-1];
    reg [5:0]          head, tail, words_tail;
    reg [6:0]          under_way, waiting;                  // requested; of these, here
    reg [1:0]          residual_halves;                     // free ones
    reg [31:0]         weight_used;                         // bytes since reset

    wire [5:0]  kind;
    wire        is_code, is_scales, is_table, is_residual, is_weights, is_input;
    wire [7:0]  number;
    wire        behind, starts, ends;
    wire [2:0]  byte_at, lane;
    assign {kind, number, behind, starts, ends, byte_at, n_bytes, place, lane} = tags[head];
    assign {is_code, is_scales, is_table, is_residual, is_weights, is_input} = kind;

    // Chunk (unit) n waits until n of them have begun; the difference is small, and below 0 while it waits.
    wire [7:0]  begun = (is_input ? chunks_begun : units_begun) - number;
    wire        is_free = is_residual ? !starts || residual_halves != 2'd0 : is_scales || is_table || !begun[7];
    wire        has_room = !is_weights || decode_room;
    wire        take = (response || waiting != 7'd0) && (!behind || (owned && is_free)) && has_room;
    wire [63:0] word = waiting != 7'd0 ? words[head] : response_data;
    assign decode_room = weight_used + 32'd8 - weight_freed <= WEIGHT_BYTES;
    assign has_space = under_way < PLACES;
    assign is_empty = under_way == 7'd0;

    always @(posedge clk) begin
        if (push) begin
            tags[tail] <= {push_kind, push_number, push_behind, push_starts, push_ends, push_byte, push_n, push_place, push_lane};
            tail <= tail + 6'd1;
        end
        if (response) begin
            words[words_tail] <= response_data;
            words_tail <= words_tail + 6'd1;
        end
        if (take) head <= head + 6'd1;
        under_way <= under_way + {6'd0, push} - {6'd0, take};
        waiting <= waiting + {6'd0, response} - {6'd0, take};
        residual_halves <= residual_halves + {1'b0, block_output} - {1'b0, take && starts};
        weight_used <= weight_used + (weight_write ? {28'd0, n_bytes} : decoded_write ? {28'd0, decoded_bytes} : 32'd0);
        if (rst) begin
            {head, tail, words_tail, under_way, waiting, weight_used} <= 0;
            residual_halves <= 2'd2;
        end
    end

    wire [63:0] lowest = word >> {byte_at, 3'd0};
    assign data = is_input || is_residual ? lowest << {lane, 3'd0} : lowest;
    assign lanes = ~(8'hff << n_bytes) << lane;
    assign {code_write, scale_write, table_write, residual_write, weight_write, input_write} = take ? kind : 6'd0;
    assign chunk_loaded = input_write && ends;
    assign residual_loaded = residual_write && ends;
endmodule
