// The strided tensor fetcher of the MAC array: every word that an instruction reads, in order, through one port.
//
// Chunk by chunk (a channel block of the input; depthwise: of the output block): the input of the block's windows and the
// weights, one group of 8 output channels after the other; behind the first chunk of a block the constants of its output
// channels (in the first block of pixels, and once the table); behind its last chunk the residual operand.
//
// Requests run ahead of the buffers by the latency of the port; npuc_responses lets a word in when there is room for it.
// An instruction takes SETUP_CYCLES before its first request.

`include "npuc_isa.vh"

module npuc_fetch #(
    parameter SETUP_CYCLES = 16,
    parameter HALF_WORDS = 1536,
    parameter HALF_BYTES = 4096               // of the weight buffer
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
    input  wire [7:0]    chunks_begun,        // by the array, with this cycle
    input  wire [7:0]    units_begun,
    // SRAM read port
    output wire          request,
    output wire [26:0]   request_word,
    input  wire          grant,
    input  wire          response,
    input  wire [63:0]   response_data,
    // what arrives: `data` is shifted so that its first byte is the lowest, or the first lane of a word
    output wire [63:0]   data,
    output wire [3:0]    n_bytes,
    output wire [11:0]   taken_place,         // of an input word or a residual word, and its lanes
    output wire [7:0]    lanes,
    output wire          input_write,
    output wire          weight_write,
    output wire          code_write,
    output wire          decode_pass,         // the stream of coded weights is wanted once more: a pulse for each block of pixels
    output wire [31:0]   decode_weights,      // weights of the instruction
    input  wire          decoded_write,
    input  wire [3:0]    decoded_bytes,
    output wire          decode_room,
    input  wire          decode_done,
    output wire          scale_write,
    output wire          table_write,
    output wire          residual_write,
    output wire          chunk_loaded,
    output wire          residual_loaded,
    output wire          all_loaded,
    input  wire [31:0]   weight_freed,        // bytes given back since reset
    input  wire          block_output         // the output stage is done with a block and its residual operand
);
    localparam INPUT = 3'd0, WEIGHTS = 3'd1, SCALES = 3'd2, TABLE = 3'd3, RESIDUAL = 3'd4, DONE = 3'd5, CODE = 3'd6;

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
    reg [15:0] k_done, group, tap;
    reg [15:0] row_interval, row, pixel_interval, pixel;
    reg [29:0] weights_done, run_done;        // bytes of the weights' run, and of any other
    reg        behind_load;                   // of the first part
    reg [7:0]  chunk_number, unit_number;     // in the instruction
    reg        announces;                     // passes of coded weights behind the first one
    reg [15:0] pass_y, pass_x;
    reg [12:0] unit_before;                   // bytes of the unit before the group
    reg        second;                        // second word of an access

    wire [15:0] block_h = least(layer[`NPUC_LAYER_BLOCK_H] + 17'd1, height - block_y);
    wire [15:0] block_w = least(layer[`NPUC_LAYER_BLOCK_W] + 17'd1, width - block_x);
    wire [15:0] block_n = least({5'd0, layer[`NPUC_LAYER_BLOCK_C], 3'd0} + 17'd8, channels - block_c);
    wire        needs_scales = block_y == 16'd0 && block_x == 16'd0;
    wire        is_last_c = block_c + block_n == channels;
    wire        is_last_x = block_x + block_w == width;
    wire        is_last_y = block_y + block_h == height;

    wire signed [25:0] origin_y, origin_x;
    wire [15:0] intervals_y, intervals_x, length_y, length_x, pitch_y, pitch_x, skipped_y, skipped_x, span_y, span_x;
    npuc_window window_y (
        .first(y0 + block_y), .size(block_h), .stride(layer[`NPUC_LAYER_STRIDE_H] + 9'd1),
        .kernel(layer[`NPUC_LAYER_KERNEL_H] + 9'd1), .dilation(layer[`NPUC_LAYER_DILATION_H] + 9'd1),
        .pad(layer[`NPUC_LAYER_PAD_TOP]), .limit(ifm_height), .origin(origin_y), .intervals(intervals_y),
        .length(length_y), .pitch(pitch_y), .skipped(skipped_y), .span(span_y));
    npuc_window window_x (
        .first(x0 + block_x), .size(block_w), .stride(layer[`NPUC_LAYER_STRIDE_W] + 9'd1),
        .kernel(layer[`NPUC_LAYER_KERNEL_W] + 9'd1), .dilation(layer[`NPUC_LAYER_DILATION_W] + 9'd1),
        .pad(layer[`NPUC_LAYER_PAD_LEFT]), .limit(ifm_width), .origin(origin_x), .intervals(intervals_x),
        .length(length_x), .pitch(pitch_x), .skipped(skipped_x), .span(span_x));

    // An interval clipped to the tensor: `low` positions are skipped, `count` are read.
    wire signed [25:0] start_y = origin_y + row_interval * $signed({17'd0, layer[`NPUC_LAYER_STRIDE_H] + 9'd1});
    wire signed [25:0] start_x = origin_x + pixel_interval * $signed({17'd0, layer[`NPUC_LAYER_STRIDE_W] + 9'd1});
    wire signed [25:0] room_y = $signed({10'd0, ifm_height}) - start_y, room_x = $signed({10'd0, ifm_width}) - start_x;
    wire [15:0] low_y = start_y < 0 ? -start_y[15:0] : 16'd0, low_x = start_x < 0 ? -start_x[15:0] : 16'd0;
    wire [15:0] high_y = room_y < $signed({10'd0, length_y}) ? room_y[15:0] : length_y;
    wire [15:0] high_x = room_x < $signed({10'd0, length_x}) ? room_x[15:0] : length_x;

    // The chunk: one channel block of the input.
    wire [15:0] k_at = depthwise ? c0 + block_c + k_done : k_first + k_done;
    wire [16:0] chunk_channels = depthwise ? {1'b0, block_n} : k_channels;
    wire [15:0] k_n = least({13'd0, 4'd8 - {1'b0, k_at[2:0]}}, chunk_channels - k_done);
    wire        is_last_k = k_done + k_n == chunk_channels;
    wire        is_first_k = k_done == 16'd0;
    wire        is_last_chunk = is_last_k && is_last_c && is_last_x && is_last_y;

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

    // Runs: the weights of a block are one run when a chunk has all input channels, and depthwise; else each tap of a group
    // is one. A word that has weights of two chunks of a run comes with the first one.
    wire        whole = depthwise || (is_last_k && is_first_k);
    wire [29:0] group_start = (block_c + (whole ? 16'd0 : group << 3)) * channel_weights;
    wire [29:0] tap_start = (tap * {13'd0, k_channels} + {14'd0, k_done}) * {14'd0, group_n};
    wire [29:0] weights_start = instruction[`NPUC_MAC_CONV_WEIGHTS] + group_start + (whole ? 30'd0 : tap_start);
    wire [29:0] weights_n = whole ? block_n * channel_weights : {14'd0, k_n} * {14'd0, group_n};
    wire [29:0] group_end_at = depthwise ? (k_done + k_n) * {14'd0, taps} : ((group << 3) + group_n) * channel_weights;

    // Units: a group that does not fit in the half begins the next one.
    wire [15:0] next_n = least(17'd8, block_n - (group << 3) - group_n);
    wire [29:0] group_bytes = taps * k_n * {14'd0, group_n}, next_bytes = taps * k_n * {14'd0, next_n};
    wire        next_starts_unit = unit_before + group_bytes + next_bytes > HALF_BYTES;
    wire [1:0]  scale_form = layer[`NPUC_LAYER_SCALE_FORM];
    wire [29:0] scale_record = scale_form == 2'd0 ? 30'd10 : {28'd0, scale_form} + 30'd5;
    wire [29:0] code_offset = ((scale_record * layer[`NPUC_LAYER_OFM_CHANNELS] + 30'd15) >> 4) << 4;
    wire [29:0] run_start = phase == WEIGHTS ? weights_start
                            : phase == SCALES ? layer[`NPUC_LAYER_SCALES] + scale_record * {14'd0, c0 + block_c}
                            : phase == TABLE ? layer[`NPUC_LAYER_TABLE] : layer[`NPUC_LAYER_SCALES] + code_offset;
    wire [29:0] run_n = phase == WEIGHTS ? weights_n : phase == SCALES ? scale_record * {14'd0, block_n}
                        : phase == TABLE ? 30'd256 : {23'd0, layer[`NPUC_LAYER_CODE_TABLE], 4'd0};
    wire [29:0] done = phase == WEIGHTS ? weights_done : run_done;
    wire [29:0] run_at = run_start + done;
    wire [29:0] run_left = run_n - done;
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
    reg         half;
    reg [8:0]   residual_base;
    wire [15:0] stored_y = row_interval * length_y + low_y + row - skipped_y;
    wire [15:0] stored_x = pixel_interval * length_x + low_x + pixel - skipped_x;
    wire [31:0] offset = stored_y * {16'd0, span_x} + {16'd0, stored_x};
    wire [11:0] place = is_residual ? {3'd0, residual_base} : (half ? HALF_WORDS[11:0] : 12'd0) + offset[11:0];
    wire [2:0]  lane = second ? access_first[2:0] : 3'd0;

    wire        has_space, none_under_way;
    wire        runs = valid && setup == SETUP_CYCLES - 1 && phase != DONE;
    assign request = runs && has_space;
    assign request_word = at[29:3];
    assign decode_weights = channels * channel_weights;
    assign all_loaded = valid && phase == DONE && none_under_way && (!coded || decode_done);

    // Loops: the innermost first. -------------------------------------------------------------------------------------

    wire fire = request && grant;
    wire pixels_end = is_residual ? pixel + 16'd1 == block_w : low_x + pixel + 16'd1 == high_x;
    wire rows_end = is_residual ? row + 16'd1 == block_h : low_y + row + 16'd1 == high_y;
    wire pixel_intervals_end = is_residual || pixel_interval + 16'd1 == intervals_x;
    wire row_intervals_end = is_residual || row_interval + 16'd1 == intervals_y;
    wire plane_end = access_done && pixels_end && pixel_intervals_end && rows_end && row_intervals_end;
    wire input_end = plane_end && phase == INPUT;
    wire residual_end = plane_end && is_last_group;
    wire [29:0] weights_after = weights_done + {26'd0, run_word};
    wire tap_end = is_run_end && !whole;
    wire group_end = whole ? weights_after >= group_end_at : is_run_end && tap + 16'd1 == taps;
    wire weights_end = whole && !depthwise ? is_run_end : group_end && (is_last_group || depthwise);
    // Behind the input no weights of a chunk are left to come when they are coded, or came with those of the chunk before.
    wire has_weights = coded || (depthwise && weights_done >= group_end_at);
    wire load_done = phase == INPUT ? input_end && has_weights : phase == WEIGHTS && group_end;
    wire pass_ends_row = pass_x + layer[`NPUC_LAYER_BLOCK_W] + 17'd1 >= width;
    wire starts_passes = fire && coded && input_end && !behind_load;
    assign decode_pass = starts_passes || announces;
    wire needs_residual = is_last_k && layer[`NPUC_LAYER_USE_RESIDUAL];
    wire needs_table = layer[`NPUC_LAYER_USE_TABLE] && block_c == 16'd0;

    always @(posedge clk) begin
        if (release_front) valid <= 1'b0;
        if (start) begin
            {valid, setup, phase} <= {1'b1, 5'd0, start_instruction[`NPUC_MAC_CONV_CODED_WORDS] != 16'd0 ? CODE : INPUT};
            {instruction, layer} <= {start_instruction, start_layer};
            {block_y, block_x, block_c, k_done, group, tap} <= 0;
            {row_interval, row, pixel_interval, pixel, weights_done, run_done, second, behind_load} <= 0;
            {chunk_number, unit_number, unit_before, announces, pass_y, pass_x} <= 0;
        end else if (valid && setup != SETUP_CYCLES - 1) begin
            setup <= setup + 5'd1;
        end
        if (fire) begin
            if (load_done) behind_load <= 1'b1;
            if (input_end) half <= !half;
            if (is_residual && access_done) residual_base <= residual_base + 9'd1;
            if (is_access) step_access;
            else step_run;
        end
        if (decode_pass) begin
            pass_x <= pass_ends_row ? 16'd0 : pass_x + layer[`NPUC_LAYER_BLOCK_W] + 16'd1;
            if (pass_ends_row) pass_y <= pass_y + layer[`NPUC_LAYER_BLOCK_H] + 16'd1;
            announces <= !pass_ends_row || pass_y + layer[`NPUC_LAYER_BLOCK_H] + 17'd1 < height;
        end
        if (rst) {valid, half, residual_base, announces} <= 0;
    end

    // The position behind the word that was requested.
    task step_access;
        begin
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
            if (is_residual && plane_end) begin
                group <= is_last_group ? 16'd0 : group + 16'd1;
                if (residual_end) next_chunk;
            end
            if (input_end) begin
                if (has_weights) behind_weights;
                else phase <= WEIGHTS;
            end
        end
    endtask

    task step_run;
        begin
            if (phase == WEIGHTS) begin
                weights_done <= tap_end ? 30'd0 : weights_after;
                if (tap_end) tap <= tap + 16'd1 == taps ? 16'd0 : tap + 16'd1;
                if (group_end) begin
                    group <= group + 16'd1;
                    unit_before <= next_starts_unit ? 13'd0 : unit_before + group_bytes[12:0];
                    unit_number <= unit_number + {7'd0, next_starts_unit};
                end
                if (weights_end) behind_weights;
            end else begin
                run_done <= is_run_end ? 30'd0 : run_done + {26'd0, run_word};
                if (is_run_end) begin
                    if (phase == CODE) phase <= INPUT;
                    else if (phase == SCALES && needs_table) phase <= TABLE;
                    else behind_constants;
                end
            end
        end
    endtask

    // All of a group may have come with a word of the one before, and begin a unit of its own.
    task behind_weights;
        begin
            group <= 16'd0;
            unit_before <= 13'd0;
            unit_number <= unit_number + 8'd1 + {7'd0, whole && !depthwise && !is_last_group && next_starts_unit};
            if (is_first_k && needs_scales) phase <= SCALES;
            else behind_constants;
        end
    endtask

    task behind_constants;
        if (needs_residual) phase <= RESIDUAL;
        else next_chunk;
    endtask

    task next_chunk;
        begin
            phase <= is_last_chunk ? DONE : INPUT;
            chunk_number <= chunk_number + 8'd1;
            k_done <= is_last_k ? 16'd0 : k_done + k_n;
            if (is_last_k) begin
                weights_done <= 30'd0;
                block_c <= is_last_c ? 16'd0 : block_c + block_n;
                if (is_last_c) block_x <= is_last_x ? 16'd0 : block_x + block_w;
                if (is_last_c && is_last_x) block_y <= block_y + block_h;
            end
        end
    endtask

    wire starts_residual = is_residual && group == 16'd0 && row == 16'd0 && pixel == 16'd0 && !second;
    npuc_responses responses (
        .clk(clk), .rst(rst), .push(fire),
        .push_kind({phase == CODE, phase == SCALES, phase == TABLE, is_residual, phase == WEIGHTS, phase == INPUT}),
        .push_number(phase == INPUT ? chunk_number : unit_number), .push_behind(behind_load), .push_starts(starts_residual),
        .push_ends(phase == INPUT ? input_end : access_done), .push_byte(at[2:0]), .push_n(at_n), .push_place(place),
        .push_lane(lane), .has_space(has_space), .is_empty(none_under_way), .response(response),
        .response_data(response_data), .owned(owned), .chunks_begun(chunks_begun), .units_begun(units_begun),
        .block_output(block_output), .weight_freed(weight_freed), .decoded_write(decoded_write),
        .decoded_bytes(decoded_bytes), .decode_room(decode_room), .data(data), .n_bytes(n_bytes), .place(taken_place),
        .lanes(lanes), .code_write(code_write), .scale_write(scale_write), .table_write(table_write),
        .residual_write(residual_write), .weight_write(weight_write), .input_write(input_write),
        .chunk_loaded(chunk_loaded), .residual_loaded(residual_loaded));
endmodule
