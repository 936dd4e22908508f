// The strided tensor fetcher of the MAC array: every word that an instruction reads, in order, through one port.
//
// A block of the output needs, chunk by chunk (a channel block of the input), the input of its windows and the weights
// of its output channels; then, in the first block of pixels, the constants of its output channels, and in the first
// block of all the table; then its residual operand. Responses come back in order; tags say into which buffer each goes. An instruction
// takes SETUP_CYCLES before its first request. Space in the buffers is what the array and the output stage gave back.

`include "npuc_isa.vh"

module npuc_fetch #(
    parameter SETUP_CYCLES = 16,
    parameter INPUT_WORDS = 3072,
    parameter WEIGHT_BYTES = 8192,
    parameter RESIDUAL_WORDS = 512
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          start,
    input  wire [255:0]  start_instruction,
    input  wire [1023:0] start_layer,
    input  wire          release_front,       // the last load is done: the next instruction may come
    output reg           valid,
    output reg  [255:0]  instruction,
    output reg  [1023:0] layer,
    input  wire          owned,               // array and output stage work on this instruction
    // SRAM read port
    output wire          request,
    output wire [26:0]   request_word,
    input  wire          grant,
    input  wire          response,
    input  wire [63:0]   response_data,
    // what arrives: `data` is shifted so that its first byte is the lowest, or the first lane of a word
    output wire [63:0]   data,
    output wire [3:0]    n_bytes,
    output wire          input_write,
    output wire [11:0]   input_place,
    output wire [7:0]    input_lanes,
    output wire          weight_write,
    output wire          code_write,
    output wire          decode_pass,         // the stream of coded weights is wanted once more
    output wire [31:0]   decode_weights,      // weights of the instruction
    input  wire          decoded_write,
    input  wire [3:0]    decoded_bytes,
    output wire          decode_room,
    input  wire          decode_done,
    output wire          scale_write,
    output wire          table_write,
    output wire          residual_write,
    output wire [8:0]    residual_place,
    output wire [7:0]    residual_lanes,
    output wire          chunk_loaded,
    output wire          residual_loaded,
    output wire          all_loaded,
    output wire          blocked,             // nothing is under way, and a buffer is full
    input  wire [31:0]   input_freed,         // words, bytes and words given back since reset
    input  wire [31:0]   weight_freed,
    input  wire [31:0]   residual_freed
);
    localparam INPUT = 3'd0, WEIGHTS = 3'd1, SCALES = 3'd2, TABLE = 3'd3, RESIDUAL = 3'd4, DONE = 3'd5, CODE = 3'd6;
    localparam TAGS = 128, TAG_BITS = 26;

    // The region and the layer ---------------------------------------------------------------------------------------

    wire        depthwise = instruction[`NPUC_INSTRUCTION_OPCODE] == `NPUC_OP_MAC_DEPTHWISE;
    wire        coded = instruction[`NPUC_MAC_CONV_CODED_WORDS] != 16'd0;
    wire [15:0] y0 = instruction[`NPUC_MAC_CONV_Y], x0 = instruction[`NPUC_MAC_CONV_X], c0 = instruction[`NPUC_MAC_CONV_C];
    wire [16:0] height = instruction[`NPUC_MAC_CONV_HEIGHT] + 17'd1;
    wire [16:0] width = instruction[`NPUC_MAC_CONV_WIDTH] + 17'd1;
    wire [16:0] channels = instruction[`NPUC_MAC_CONV_CHANNELS] + 17'd1;
    wire [15:0] k_first = instruction[`NPUC_MAC_CONV_K];
    wire [16:0] k_channels = instruction[`NPUC_MAC_CONV_K_CHANNELS] + 17'd1;
    wire [15:0] taps = (layer[`NPUC_LAYER_KERNEL_H] + 9'd1) * (layer[`NPUC_LAYER_KERNEL_W] + 9'd1);
    wire [29:0] channel_weights = depthwise ? {14'd0, taps} : taps * {13'd0, k_channels};
    wire [15:0] ifm_height = layer[`NPUC_LAYER_IFM_HEIGHT], ifm_width = layer[`NPUC_LAYER_IFM_WIDTH];

    function [15:0] least(input [16:0] a, input [16:0] b);
        least = a < b ? a[15:0] : b[15:0];
    endfunction

    // Position in the instruction -------------------------------------------------------------------------------------

    reg [4:0]  setup;
    reg [2:0]  phase;
    reg [15:0] block_y, block_x, block_c;     // from the region's origin
    reg [15:0] k_done, unit, group, tap;
    reg [15:0] row_interval, row, pixel_interval, pixel;
    reg [29:0] run_done;                      // bytes
    reg        second;                        // second word of an access

    wire [15:0] block_h = least(layer[`NPUC_LAYER_BLOCK_H] + 17'd1, height - block_y);
    wire [15:0] block_w = least(layer[`NPUC_LAYER_BLOCK_W] + 17'd1, width - block_x);
    wire [15:0] block_n = least({5'd0, layer[`NPUC_LAYER_BLOCK_C], 3'd0} + 17'd8, channels - block_c);
    wire        needs_scales = block_y == 16'd0 && block_x == 16'd0;
    wire        is_last_c = block_c + block_n == channels;
    wire        is_last_x = block_x + block_w == width;
    wire        is_last_y = block_y + block_h == height;

    wire signed [25:0] origin_y, origin_x;
    wire [15:0] intervals_y, intervals_x, length_y, length_x, pitch_y, pitch_x, span_y, span_x;
    npuc_window window_y (
        .first(y0 + block_y), .size(block_h), .stride(layer[`NPUC_LAYER_STRIDE_H] + 9'd1),
        .kernel(layer[`NPUC_LAYER_KERNEL_H] + 9'd1), .dilation(layer[`NPUC_LAYER_DILATION_H] + 9'd1),
        .pad(layer[`NPUC_LAYER_PAD_TOP]), .origin(origin_y), .intervals(intervals_y), .length(length_y),
        .pitch(pitch_y), .span(span_y));
    npuc_window window_x (
        .first(x0 + block_x), .size(block_w), .stride(layer[`NPUC_LAYER_STRIDE_W] + 9'd1),
        .kernel(layer[`NPUC_LAYER_KERNEL_W] + 9'd1), .dilation(layer[`NPUC_LAYER_DILATION_W] + 9'd1),
        .pad(layer[`NPUC_LAYER_PAD_LEFT]), .origin(origin_x), .intervals(intervals_x), .length(length_x),
        .pitch(pitch_x), .span(span_x));

    // An interval clipped to the tensor: `low` positions are skipped, `count` are read.
    wire signed [25:0] start_y = origin_y + row_interval * $signed({17'd0, layer[`NPUC_LAYER_STRIDE_H] + 9'd1});
    wire signed [25:0] start_x = origin_x + pixel_interval * $signed({17'd0, layer[`NPUC_LAYER_STRIDE_W] + 9'd1});
    wire signed [25:0] room_y = $signed({10'd0, ifm_height}) - start_y, room_x = $signed({10'd0, ifm_width}) - start_x;
    wire [15:0] low_y = start_y < 0 ? -start_y[15:0] : 16'd0, low_x = start_x < 0 ? -start_x[15:0] : 16'd0;
    wire [15:0] high_y = room_y < $signed({10'd0, length_y}) ? room_y[15:0] : length_y;
    wire [15:0] high_x = room_x < $signed({10'd0, length_x}) ? room_x[15:0] : length_x;

    // Input channels of the chunk: one channel block; a depthwise chunk has all channel blocks of the output block.
    wire [15:0] k_at = depthwise ? c0 + block_c + (unit << 3) : k_first + k_done;
    wire [16:0] k_left = depthwise ? block_n - (unit << 3) : k_channels - k_done;
    wire [15:0] k_n = least({13'd0, 4'd8 - {1'b0, k_at[2:0]}}, k_left);
    wire        is_last_k = depthwise || k_done + k_n == k_channels;
    wire        is_last_unit = !depthwise || (unit << 3) + 16'd8 >= block_n;
    wire [15:0] units = depthwise ? (block_n + 16'd7) >> 3 : 16'd1;

    // Output channels of the group that weights or residual belong to.
    wire [15:0] group_n = least(17'd8, block_n - (group << 3));
    wire        is_last_group = (group << 3) + group_n == block_n;

    // Addresses --------------------------------------------------------------------------------------------------------

    wire        is_residual = phase == RESIDUAL;
    wire [15:0] at_y = is_residual ? y0 + block_y + row : start_y[15:0] + low_y + row;
    wire [15:0] at_x = is_residual ? x0 + block_x + pixel : start_x[15:0] + low_x + pixel;
    wire [15:0] at_c = is_residual ? c0 + block_c + (group << 3) : k_at;
    wire [29:0] access;
    npuc_address operand (
        .tensor(is_residual ? layer[`NPUC_LAYER_IFM2_TENSOR] : layer[`NPUC_LAYER_IFM_TENSOR]),
        .channels(is_residual ? layer[`NPUC_LAYER_OFM_CHANNELS] : layer[`NPUC_LAYER_IFM_CHANNELS]),
        .n(instruction[`NPUC_MAC_CONV_N]), .y(at_y), .x(at_x), .c(at_c), .address(access));
    wire [3:0]  access_n = is_residual ? group_n[3:0] : k_n[3:0];
    wire [3:0]  access_first = 4'd8 - {1'b0, access[2:0]};
    wire        access_splits = access_n > access_first;

    // Runs: the weights of a block are one run when a chunk has all input channels; else each tap of a group is one.
    wire        whole = is_last_k && k_done == 16'd0;
    wire [29:0] group_start = (block_c + (group << 3)) * channel_weights;
    wire [29:0] tap_start = (tap * {13'd0, k_channels} + {14'd0, k_done}) * {14'd0, group_n};
    wire [29:0] weights_start = instruction[`NPUC_MAC_CONV_WEIGHTS] + group_start + (whole ? 30'd0 : tap_start);
    wire [29:0] weights_n = whole ? block_n * channel_weights : {14'd0, k_n} * {14'd0, group_n};
    wire [29:0] code_offset = ((30'd10 * layer[`NPUC_LAYER_OFM_CHANNELS] + 30'd15) >> 4) << 4;
    wire [29:0] run_start = phase == CODE ? layer[`NPUC_LAYER_SCALES] + code_offset : phase == SCALES ? layer[`NPUC_LAYER_SCALES] + 30'd10 * {14'd0, c0 + block_c}
                            : phase == TABLE ? layer[`NPUC_LAYER_TABLE] : weights_start;
    wire [29:0] run_n = phase == CODE ? {23'd0, layer[`NPUC_LAYER_CODE_TABLE], 4'd0} : phase == SCALES ? 30'd10 * {14'd0, block_n} : phase == TABLE ? 30'd256 : weights_n;
    wire [29:0] run_at = run_start + run_done;
    wire [29:0] run_left = run_n - run_done;
    wire [3:0]  run_room = 4'd8 - {1'b0, run_at[2:0]};
    wire [3:0]  run_word = run_left < {26'd0, run_room} ? run_left[3:0] : run_room;
    wire        is_run_end = run_left == {26'd0, run_word};

    // Requests ---------------------------------------------------------------------------------------------------------

    wire        is_access = phase == INPUT || is_residual;
    wire [29:0] at = is_access ? access + (second ? {26'd0, access_first} : 30'd0) : run_at;
    wire [3:0]  at_n = !is_access ? run_word : second ? access_n - access_first
                       : access_splits ? access_first : access_n;
    wire        access_done = second || !access_splits;

    // Where an input word or a residual word is kept.
    reg [31:0]  input_used, weight_used, residual_used;     // since reset
    reg [11:0]  input_base;
    reg [8:0]   residual_base;
    wire [31:0] chunk_words = units * {16'd0, span_y} * {16'd0, span_x};
    wire [15:0] stored_y = row_interval * length_y + low_y + row;
    wire [15:0] stored_x = pixel_interval * length_x + low_x + pixel;
    wire [31:0] offset = (unit * span_y + stored_y) * {16'd0, span_x} + {16'd0, stored_x};
    wire [31:0] place_sum = {20'd0, input_base} + offset;
    wire [31:0] place_wrapped = place_sum >= INPUT_WORDS ? place_sum - INPUT_WORDS : place_sum;
    wire [11:0] place = is_residual ? {3'd0, residual_base} : place_wrapped[11:0];
    wire [2:0]  lane = second ? access_first[2:0] : 3'd0;

    reg [7:0]   under_way;
    wire        has_room = phase == INPUT ? input_used + chunk_words - input_freed <= INPUT_WORDS
                           : phase == WEIGHTS ? weight_used + 32'd8 - weight_freed <= WEIGHT_BYTES
                           : is_residual ? residual_used - residual_freed < RESIDUAL_WORDS : phase == CODE || owned;
    assign decode_room = weight_used + 32'd8 - weight_freed <= WEIGHT_BYTES;
    assign decode_weights = channels * channel_weights;
    wire        runs = valid && setup == SETUP_CYCLES - 1 && phase != DONE;
    assign request = runs && has_room && under_way < TAGS - 1;
    assign request_word = at[29:3];
    assign all_loaded = valid && phase == DONE && under_way == 8'd0 && (!coded || decode_done);
    assign blocked = (runs && !has_room && under_way == 8'd0) || (valid && coded && !decode_done && !decode_room);

    // Loops: the innermost first. -------------------------------------------------------------------------------------

    wire fire = request && grant;
    wire pixels_end = is_residual ? pixel + 16'd1 == block_w : low_x + pixel + 16'd1 == high_x;
    wire rows_end = is_residual ? row + 16'd1 == block_h : low_y + row + 16'd1 == high_y;
    wire pixel_intervals_end = is_residual || pixel_interval + 16'd1 == intervals_x;
    wire row_intervals_end = is_residual || row_interval + 16'd1 == intervals_y;
    wire plane_end = access_done && pixels_end && pixel_intervals_end && rows_end && row_intervals_end;
    wire input_end = plane_end && is_last_unit;
    wire residual_end = plane_end && is_last_group;
    wire weights_end = is_run_end && (whole || (tap + 16'd1 == taps && is_last_group));
    wire chunk_end = coded ? phase == INPUT && input_end : phase == WEIGHTS && weights_end;
    assign decode_pass = fire && coded && chunk_end && k_done == 16'd0 && block_c == 16'd0;
    wire use_table = layer[`NPUC_LAYER_USE_TABLE], use_residual = layer[`NPUC_LAYER_USE_RESIDUAL];
    wire needs_table = use_table && block_c == 16'd0;
    wire constants_end = is_run_end && (phase == TABLE || !needs_table);
    wire block_end = use_residual ? is_residual && residual_end
                     : needs_scales ? (phase == SCALES || phase == TABLE) && constants_end
                     : chunk_end && is_last_k;

    always @(posedge clk) begin
        if (release_front) valid <= 1'b0;
        if (start) begin
            {valid, setup, phase} <= {1'b1, 5'd0, start_instruction[`NPUC_MAC_CONV_CODED_WORDS] != 16'd0 ? CODE : INPUT};
            {instruction, layer} <= {start_instruction, start_layer};
            {block_y, block_x, block_c, k_done, unit, group, tap} <= 0;
            {row_interval, row, pixel_interval, pixel, run_done, second} <= 0;
        end else if (valid && setup != SETUP_CYCLES - 1) begin
            setup <= setup + 5'd1;
        end
        if (fire) begin
            step;
            if (phase == WEIGHTS) weight_used <= weight_used + {28'd0, run_word};
            if (phase == INPUT && input_end) begin
                input_used <= input_used + chunk_words;
                input_base <= {20'd0, input_base} + chunk_words >= INPUT_WORDS
                              ? input_base + chunk_words[11:0] - INPUT_WORDS[11:0] : input_base + chunk_words[11:0];
            end
            if (is_residual && access_done) begin
                residual_used <= residual_used + 32'd1;
                residual_base <= residual_base + 9'd1;
            end
        end
        if (decoded_write) weight_used <= weight_used + {28'd0, decoded_bytes};
        if (rst) begin
            valid <= 1'b0;
            {input_used, weight_used, residual_used, input_base, residual_base} <= 0;
        end
    end

    // The position behind the word that was requested.
    task step;
        if (is_access) begin
            second <= !access_done;
            if (access_done) begin
                pixel <= pixels_end ? 16'd0 : pixel + 16'd1;
                if (pixels_end) begin
                    pixel_interval <= pixel_intervals_end ? 16'd0 : pixel_interval + 16'd1;
                    if (pixel_intervals_end) begin
                        row <= rows_end ? 16'd0 : row + 16'd1;
                        if (rows_end) row_interval <= row_intervals_end ? 16'd0 : row_interval + 16'd1;
                    end
                end
            end
            if (plane_end) begin
                if (is_residual) group <= is_last_group ? 16'd0 : group + 16'd1;
                else unit <= is_last_unit ? 16'd0 : unit + 16'd1;
            end
            if (phase == INPUT && input_end) phase <= WEIGHTS;
            if (chunk_end) next_chunk;
            if (is_residual && residual_end) next_block;
        end else begin
            run_done <= is_run_end ? 30'd0 : run_done + {26'd0, run_word};
            if (phase == WEIGHTS) begin
                if (is_run_end && !whole) begin
                    tap <= tap + 16'd1 == taps ? 16'd0 : tap + 16'd1;
                    if (tap + 16'd1 == taps) group <= is_last_group ? 16'd0 : group + 16'd1;
                end
                if (chunk_end) next_chunk;
            end else if (phase == CODE) begin
                if (is_run_end) phase <= INPUT;
            end else if (is_run_end) begin
                phase <= constants_end ? RESIDUAL : TABLE;
                if (block_end) next_block;
            end
        end
    endtask

    task next_chunk;
        begin
            k_done <= is_last_k ? 16'd0 : k_done + k_n;
            phase <= !is_last_k ? INPUT : needs_scales ? SCALES : RESIDUAL;
            if (block_end) next_block;
        end
    endtask

    task next_block;
        begin
            block_c <= is_last_c ? 16'd0 : block_c + block_n;
            if (is_last_c) block_x <= is_last_x ? 16'd0 : block_x + block_w;
            if (is_last_c && is_last_x) block_y <= block_y + block_h;
            phase <= is_last_c && is_last_x && is_last_y ? DONE : INPUT;
        end
    endtask

    // Tags and responses ------------------------------------------------------------------------------------------------

    reg [TAG_BITS-1:0] tags[0:TAGS-1];
    reg [6:0]          tag_head, tag_tail;
    wire               ends_part = phase == INPUT ? input_end : access_done;
    wire [2:0]         tag_phase;
    wire [2:0]         tag_byte, tag_lane;
    wire [11:0]        tag_place;
    wire               tag_ends;
    assign {tag_phase, tag_byte, n_bytes, tag_place, tag_lane, tag_ends} = tags[tag_head];

    always @(posedge clk) begin
        if (fire) begin
            tags[tag_tail] <= {phase, at[2:0], at_n, place, lane, ends_part};
            tag_tail <= tag_tail + 7'd1;
        end
        if (response) tag_head <= tag_head + 7'd1;
        under_way <= under_way + {7'd0, fire} - {7'd0, response};
        if (rst) {tag_head, tag_tail, under_way} <= 0;
    end

    wire is_word = tag_phase == INPUT || tag_phase == RESIDUAL;
    wire [63:0] lowest = response_data >> {tag_byte, 3'd0};
    wire [7:0]  lanes = ~(8'hff << n_bytes) << tag_lane;
    assign data = is_word ? lowest << {tag_lane, 3'd0} : lowest;
    assign input_write = response && tag_phase == INPUT;
    assign input_place = tag_place;
    assign input_lanes = lanes;
    assign weight_write = response && tag_phase == WEIGHTS;
    assign code_write = response && tag_phase == CODE;
    assign scale_write = response && tag_phase == SCALES;
    assign table_write = response && tag_phase == TABLE;
    assign residual_write = response && tag_phase == RESIDUAL;
    assign residual_place = tag_place[8:0];
    assign residual_lanes = lanes;
    assign chunk_loaded = input_write && tag_ends;
    assign residual_loaded = residual_write && tag_ends;
endmodule
