// A DMA unit: reads run ahead of writes by the latency of the source, and bytes pass through a small buffer.
//
// After SETUP_CYCLES both sides step through their runs, at most a word a cycle each (flash: a byte); words to write
// wait until their bytes have come. An instruction has issued its last block when both sides are through.

`include "npuc_isa.vh"

module npuc_dma #(
    parameter SETUP_CYCLES = 16,
    parameter SOURCE_UNIT = 8                // bytes of a read: 8 from SRAM, 1 from flash
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         ready,
    input  wire [255:0] next_instruction,
    input  wire [`NPUC_DMA_BITS-1:0] next_descriptor,
    output wire         start,
    output wire         issue_end,
    output wire         retire,
    output wire         read_request,
    output wire [29:0]  read_address,
    input  wire         read_grant,
    input  wire         read_response,
    input  wire [63:0]  read_data,
    output wire         write_request,
    output wire [26:0]  write_word,
    output wire [7:0]   write_lanes,
    output wire [63:0]  write_data,
    input  wire         write_grant
);
    localparam WORDS = 64, TAGS = 256, BYTES = 512;

    // The instruction --------------------------------------------------------------------------------------------------

    reg         busy, is_waiting;
    reg [255:0] instruction;
    reg [`NPUC_DMA_BITS-1:0] descriptor;
    reg [4:0]   setup;
    reg [7:0]   in_flight;

    wire [6:0]  opcode = instruction[`NPUC_INSTRUCTION_OPCODE], next_opcode = next_instruction[`NPUC_INSTRUCTION_OPCODE];
    wire        is_wait = next_opcode[6:2] == 5'b00010;
    wire        is_fill = opcode == `NPUC_OP_DMA_FILL;
    wire        is_4d = opcode[0] || is_fill;
    wire [31:0] source = instruction[`NPUC_DMA_LOAD4_SOURCE];
    wire [31:0] destination = is_fill ? instruction[`NPUC_DMA_FILL_DESTINATION]
                              : is_4d ? instruction[`NPUC_DMA_LOAD4_DESTINATION] : instruction[`NPUC_DMA_LOAD_DESTINATION];
    wire [31:0] contiguous_source = instruction[`NPUC_DMA_LOAD_SOURCE];
    wire [24:0] size_0 = is_4d ? descriptor[`NPUC_DMA_SIZE_0] + 25'd1 : instruction[`NPUC_DMA_LOAD_LENGTH] + 25'd1;
    wire [16:0] size_1 = is_4d ? descriptor[`NPUC_DMA_SIZE_1] + 17'd1 : 17'd1;
    wire [16:0] size_2 = is_4d ? descriptor[`NPUC_DMA_SIZE_2] + 17'd1 : 17'd1;
    wire [16:0] size_3 = is_4d ? descriptor[`NPUC_DMA_SIZE_3] + 17'd1 : 17'd1;

    wire reads_busy, writes_busy;
    reg  writes_were_busy;
    wire begins = busy && setup == SETUP_CYCLES - 3;        // the word buffer and the counters below take two cycles
    wire is_set_up = busy && setup == SETUP_CYCLES - 1;
    assign issue_end = is_set_up && !reads_busy && !writes_busy && !writes_were_busy;
    assign start = ready && !is_waiting && (!busy || issue_end);
    wire wait_retire = (is_waiting || (start && is_wait)) && in_flight == 8'd0;
    wire last_written;
    assign retire = last_written || wait_retire;

    always @(posedge clk) begin
        busy <= (start && !is_wait) || (busy && !issue_end);
        if (start) {instruction, descriptor, setup} <= {next_instruction, next_descriptor, 5'd0};
        else if (!is_set_up) setup <= setup + 5'd1;
        is_waiting <= (is_waiting || (start && is_wait)) && !wait_retire;
        in_flight <= in_flight + {7'd0, start && !is_wait} - {7'd0, last_written};
        writes_were_busy <= writes_busy;
        if (rst) {busy, is_waiting, in_flight} <= 0;
    end

    // Both sides -------------------------------------------------------------------------------------------------------

    wire        read_fire, write_push, read_last, write_last;
    wire [3:0]  read_n, write_n;
    wire [29:0] write_at;
    npuc_runs #(.UNIT(SOURCE_UNIT)) reads (
        .clk(clk), .rst(rst), .start(begins && !is_fill), .base(is_4d ? source[29:0] : contiguous_source[29:0]),
        .size_0(size_0), .size_1(size_1), .size_2(size_2), .size_3(size_3), .stride_1(descriptor[`NPUC_DMA_SOURCE_1]),
        .stride_2(descriptor[`NPUC_DMA_SOURCE_2]), .stride_3(descriptor[`NPUC_DMA_SOURCE_3]), .advance(read_fire),
        .busy(reads_busy), .address(read_address), .n_bytes(read_n), .last(read_last));
    npuc_runs writes (
        .clk(clk), .rst(rst), .start(begins), .base(destination[29:0]),
        .size_0(size_0), .size_1(size_1), .size_2(size_2), .size_3(size_3), .stride_1(descriptor[`NPUC_DMA_DESTINATION_1]),
        .stride_2(descriptor[`NPUC_DMA_DESTINATION_2]), .stride_3(descriptor[`NPUC_DMA_DESTINATION_3]),
        .advance(write_push), .busy(writes_busy), .address(write_at), .n_bytes(write_n), .last(write_last));

    // Bytes on their way: requested ones have a place, so that responses always fit.
    reg [9:0]   promised;                    // requested and not yet written
    reg [9:0]   held;
    reg [8:0]   first;
    reg [7:0]   tag_head, tag_tail;
    reg [6:0]   tags[0:TAGS-1];
    reg [7:0]   bytes[0:BYTES-1];
    wire [2:0]  tag_byte;
    wire [3:0]  tag_n;
    wire        write_fire, write_fill;
    wire [3:0]  write_bytes;
    assign {tag_byte, tag_n} = tags[tag_head];
    assign read_request = is_set_up && reads_busy && promised + 10'd8 <= BYTES && tag_tail + 8'd1 != tag_head;
    assign read_fire = read_request && read_grant;
    wire [63:0] arrived = SOURCE_UNIT == 1 ? read_data : read_data >> {tag_byte, 3'd0};
    wire [3:0]  n_arrived = read_response ? tag_n : 4'd0;
    wire [3:0]  n_taken = write_fire && !write_fill ? write_bytes : 4'd0;

    integer b;
    always @(posedge clk) begin
        if (read_fire) begin
            tags[tag_tail] <= {read_address[2:0], read_n};
            tag_tail <= tag_tail + 8'd1;
        end
        if (read_response) tag_head <= tag_head + 8'd1;
        for (b = 0; b < 8; b = b + 1)
            if (b < n_arrived) bytes[(first + held + b) % BYTES] <= arrived[8*b+:8];
        promised <= promised + (read_fire ? {6'd0, read_n} : 10'd0) - {6'd0, n_taken};
        held <= held + {6'd0, n_arrived} - {6'd0, n_taken};
        first <= first + {5'd0, n_taken};
        if (rst) {tag_head, tag_tail, promised, held, first} <= 0;
    end

    // Words to write: a word goes out in the cycle in which its last byte comes.
    reg [43:0] words[0:WORDS-1];
    reg [5:0]  word_head, word_tail;
    reg [6:0]  n_words;
    wire [29:0] at;
    wire [7:0]  fill_value;
    wire        is_last;
    assign write_push = writes_busy && n_words != WORDS;
    assign {write_fill, fill_value, is_last, at, write_bytes} = words[word_head];
    assign write_request = n_words != 7'd0 && (write_fill || held + {6'd0, n_arrived} >= {6'd0, write_bytes});
    assign write_fire = write_request && write_grant;
    assign last_written = write_fire && is_last;
    assign write_word = at[29:3];
    assign write_lanes = ~(8'hff << write_bytes) << at[2:0];

    reg [63:0] taken;
    integer    t;
    always @* begin
        for (t = 0; t < 8; t = t + 1)
            taken[8*t+:8] = write_fill ? fill_value : t < held ? bytes[(first + t) % BYTES] : arrived[8*(t - held)+:8];
    end
    assign write_data = taken << {at[2:0], 3'd0};

    always @(posedge clk) begin
        if (write_push) begin
            words[word_tail] <= {is_fill, instruction[`NPUC_DMA_FILL_VALUE], write_last, write_at, write_n};
            word_tail <= word_tail + 6'd1;
        end
        if (write_fire) word_head <= word_head + 6'd1;
        n_words <= n_words + {6'd0, write_push} - {6'd0, write_fire};
        if (rst) {word_head, word_tail, n_words} <= 0;
    end
endmodule
