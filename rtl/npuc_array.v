// The array: one step a cycle is one tap of 8 input x 8 output channels of one pixel (depthwise: 4 taps of 8 channels;
// fewer than 8 input channels: 8 neighbouring values of a kernel row). Holds the input and weight buffers, which the
// fetcher fills, and both halves of the accumulators.
//
// Order: blocks (channels innermost), chunks, groups of 8 output channels, pixels, steps. So the outputs of a block
// finish one after the other during its last chunk; those of a depthwise chunk, which is one group, during this chunk.
// The last part of the instruction, one group of one chunk, waits for its last load.

`include "npuc_isa.vh"

module npuc_array #(
    parameter LANES = 8,
    parameter HALF_WORDS = 1536,             // input: two halves
    parameter WEIGHT_BYTES = 8200,
    parameter HALF_BYTES = 4096,             // of weights
    parameter BLOCK_ENTRIES = 256            // 8 outputs each: half of the accumulators
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          load,               // a new instruction is in `instruction` and `layer` from the next cycle on
    input  wire          valid,
    input  wire [255:0]  instruction,
    input  wire [1023:0] layer,
    // from the fetcher
    input  wire [63:0]   data,
    input  wire          input_write,
    input  wire [11:0]   input_place,
    input  wire [7:0]    input_lanes,
    input  wire          weight_write,
    input  wire [63:0]   weight_data,
    input  wire [3:0]    weight_bytes,
    input  wire          chunk_loaded,
    input  wire          may_finish,         // the last load is done
    output reg  [31:0]   weight_freed,
    output wire [7:0]    chunks_begun,       // of the instruction, with this cycle
    output wire [7:0]    units_begun,
    // to the output stage
    input  wire [15:0]   blocks_output,      // blocks whose accumulators the output stage has read
    output wire          in_last_part,       // of the instruction: it runs, or begins in this cycle
    output wire          finishes_entry,     // a step of the last chunk of a block, and how many are left with it
    output wire [15:0]   steps_left,
    output reg  [31:0]   entries_done,       // of the instruction, before this cycle
    output wire          done,               // nothing is left after this cycle
    input  wire [8:0]    read_entry,
    output wire [32*LANES-1:0] read_sums
);
    // The region and the layer ---------------------------------------------------------------------------------------

    wire        depthwise = instruction[`NPUC_INSTRUCTION_OPCODE] == `NPUC_OP_MAC_DEPTHWISE;
    wire [15:0] y0 = instruction[`NPUC_MAC_CONV_Y], x0 = instruction[`NPUC_MAC_CONV_X];
    wire [16:0] height = instruction[`NPUC_MAC_CONV_HEIGHT] + 17'd1;
    wire [16:0] width = instruction[`NPUC_MAC_CONV_WIDTH] + 17'd1;
    wire [16:0] channels = instruction[`NPUC_MAC_CONV_CHANNELS] + 17'd1;
    wire [15:0] k_first = instruction[`NPUC_MAC_CONV_K];
    wire [16:0] k_channels = instruction[`NPUC_MAC_CONV_K_CHANNELS] + 17'd1;
    wire [8:0]  kernel_h = layer[`NPUC_LAYER_KERNEL_H] + 9'd1, kernel_w = layer[`NPUC_LAYER_KERNEL_W] + 9'd1;
    wire [8:0]  stride_h = layer[`NPUC_LAYER_STRIDE_H] + 9'd1, stride_w = layer[`NPUC_LAYER_STRIDE_W] + 9'd1;
    wire [8:0]  dilation_h = layer[`NPUC_LAYER_DILATION_H] + 9'd1, dilation_w = layer[`NPUC_LAYER_DILATION_W] + 9'd1;
    wire [15:0] taps = kernel_h * kernel_w;
    wire [15:0] row_values = kernel_w * k_channels[6:0];
    wire [15:0] row_steps = (row_values + 16'd7) >> 3;
    wire        packed_rows = !depthwise && k_channels < 17'd8 && row_steps < {7'd0, kernel_w};
    wire [15:0] steps = depthwise ? (taps + 16'd3) >> 2 : packed_rows ? kernel_h * row_steps : taps;

    function [15:0] least(input [16:0] a, input [16:0] b);
        least = a < b ? a[15:0] : b[15:0];
    endfunction

    // Position --------------------------------------------------------------------------------------------------------

    reg         running;
    reg [15:0]  block_y, block_x, block_c, blocks_begun;
    reg [15:0]  k_done, group, row, pixel;
    reg [15:0]  step;
    reg         half;
    reg [8:0]   entry;
    reg [8:0]   tap_i, tap_j;                // tap of the first port
    reg [2:0]   tap_k;                       // and its channel, where kernel rows are packed
    reg [15:0]  row_value;                   // values of the kernel row before this step
    reg         started_last;

    wire [15:0] block_h = least(layer[`NPUC_LAYER_BLOCK_H] + 17'd1, height - block_y);
    wire [15:0] block_w = least(layer[`NPUC_LAYER_BLOCK_W] + 17'd1, width - block_x);
    wire [15:0] block_n = least({5'd0, layer[`NPUC_LAYER_BLOCK_C], 3'd0} + 17'd8, channels - block_c);
    wire [15:0] k_at = k_first + k_done;
    wire [15:0] k_n = least({13'd0, 4'd8 - {1'b0, k_at[2:0]}}, k_channels - k_done);
    wire [15:0] group_n = least(17'd8, block_n - (group << 3));

    wire last_step = step + 16'd1 == steps;
    wire last_pixel = pixel + 16'd1 == block_w, last_row = row + 16'd1 == block_h;
    wire last_group = (group << 3) + group_n == block_n;
    wire last_k = depthwise || k_done + k_n == k_channels;
    wire last_block = block_c + block_n == channels && block_x + block_w == width && block_y + block_h == height;
    wire pixels_end = last_step && last_pixel && last_row;
    wire chunk_end = pixels_end && (last_group || depthwise);
    wire block_end = pixels_end && last_group && last_k;
    wire last_part = last_block && last_k && last_group;

    wire at_group = step == 16'd0 && pixel == 16'd0 && row == 16'd0;
    wire at_chunk = at_group && (group == 16'd0 || depthwise);
    wire at_block = at_group && group == 16'd0 && k_done == 16'd0;

    // Weights of the group: one after the other in the ring, taps outermost.
    reg [31:0]  weight_loaded, weight_base;                 // bytes since reset
    reg [13:0]  loaded_place, base_place;                   // the same in the ring
    reg [15:0]  weight_at;                                  // from the group's first byte
    wire [15:0] rows_left = row_values - row_value;
    wire [3:0]  step_rows = depthwise ? (taps - (step << 2) < 16'd4 ? taps[3:0] - {step[1:0], 2'd0} : 4'd4)
                            : packed_rows ? (rows_left < 16'd8 ? rows_left[3:0] : 4'd8) : k_n[3:0];
    // Coded weights come in the order of the layout: with more than one chunk, those of a block stay until its end.
    wire        resident = instruction[`NPUC_MAC_CONV_CODED_WORDS] != 16'd0 && !depthwise && k_channels > 17'd8;
    wire [31:0] channel_bytes = taps * {15'd0, k_channels};
    wire [15:0] step_bytes = resident ? k_channels[15:0] * group_n : step_rows * group_n[3:0];
    wire [31:0] group_start = resident ? (group << 3) * channel_bytes : 32'd0;
    wire [31:0] group_bytes = resident ? channel_bytes * {16'd0, group_n} : (depthwise ? taps : taps * k_n) * {16'd0, group_n};
    wire [31:0] weight_offset = group_start + (resident ? k_done * {16'd0, group_n} : 32'd0) + {16'd0, weight_at};

    function [13:0] in_ring(input [14:0] at);
        in_ring = at < WEIGHT_BYTES ? at[13:0] : at - WEIGHT_BYTES;
    endfunction

    reg [15:0]  chunks_loaded;                              // and not used up
    reg         input_half;
    wire        has_weights = weight_loaded - weight_base >= group_start + group_bytes;
    wire        has_room = blocks_begun - blocks_output < 16'd2;
    wire        fire = running && (!at_group || has_weights) && (!at_chunk || chunks_loaded != 16'd0)
                       && (!at_block || has_room) && (!at_group || !last_part || may_finish);

    // A unit is as many groups of a chunk as fit in half of the weight buffer.
    reg [7:0]   chunks_so_far, units_so_far;
    reg [12:0]  unit_before;                                // bytes of the unit before the group
    wire [15:0] next_n = least(17'd8, block_n - (group << 3) - group_n);
    wire [31:0] unit_after = unit_before + (depthwise ? taps : taps * k_n) * {16'd0, group_n};
    wire [31:0] next_bytes = (depthwise ? taps : taps * k_n) * {16'd0, next_n};
    assign chunks_begun = chunks_so_far + {7'd0, fire && at_chunk};
    assign units_begun = units_so_far + {7'd0, fire && at_group && unit_before == 13'd0};

    assign in_last_part = started_last || (fire && last_part);
    assign finishes_entry = fire && last_k;
    assign steps_left = steps - step;
    assign done = !valid || (!running && started_last) || (fire && block_end && last_block);

    // Windows -----------------------------------------------------------------------------------------------------------

    wire signed [25:0] origin_y, origin_x;
    wire [15:0] intervals_y, intervals_x, length_y, length_x, pitch_y, pitch_x, skipped_y, skipped_x, span_y, span_x;
    npuc_window window_y (
        .first(y0 + block_y), .size(block_h), .stride(stride_h), .kernel(kernel_h), .dilation(dilation_h),
        .pad(layer[`NPUC_LAYER_PAD_TOP]), .limit(layer[`NPUC_LAYER_IFM_HEIGHT]), .origin(origin_y), .intervals(intervals_y),
        .length(length_y), .pitch(pitch_y), .skipped(skipped_y), .span(span_y));
    npuc_window window_x (
        .first(x0 + block_x), .size(block_w), .stride(stride_w), .kernel(kernel_w), .dilation(dilation_w),
        .pad(layer[`NPUC_LAYER_PAD_LEFT]), .limit(layer[`NPUC_LAYER_IFM_WIDTH]), .origin(origin_x), .intervals(intervals_x),
        .length(length_x), .pitch(pitch_x), .skipped(skipped_x), .span(span_x));

    always @(posedge clk) begin
        if (weight_write) begin
            weight_loaded <= weight_loaded + {28'd0, weight_bytes};
            loaded_place <= in_ring(loaded_place + weight_bytes);
        end
        chunks_loaded <= chunks_loaded + {15'd0, chunk_loaded} - {15'd0, fire && chunk_end};
        if (fire) advance;
        if (load) begin
            running <= 1'b1;
            {block_y, block_x, block_c, blocks_begun, k_done, group, row, pixel, step} <= 0;
            {half, entry, tap_i, tap_j, tap_k, row_value, started_last, weight_at, entries_done} <= 0;
            {chunks_so_far, units_so_far, unit_before} <= 0;
        end
        if (rst) begin
            {running, weight_loaded, weight_base, loaded_place, base_place, chunks_loaded, input_half, weight_freed} <= 0;
            started_last <= 1'b1;
        end
    end

    task advance;
        begin
            step <= last_step ? 16'd0 : step + 16'd1;
            weight_at <= last_step ? 16'd0 : weight_at + step_bytes;
            tap_i <= last_step ? 9'd0 : next_i;
            tap_j <= last_step ? 9'd0 : next_j;
            tap_k <= last_step || !packed_rows ? 3'd0 : next_k;
            row_value <= last_step || next_i != tap_i ? 16'd0 : row_value + 16'd8;
            if (last_step) begin
                entry <= pixels_end && last_group ? 9'd0 : entry + 9'd1;
                pixel <= last_pixel ? 16'd0 : pixel + 16'd1;
                if (last_pixel) row <= last_row ? 16'd0 : row + 16'd1;
                if (last_k) entries_done <= entries_done + 32'd1;
            end
            if (pixels_end) begin
                group <= last_group ? 16'd0 : group + 16'd1;
                unit_before <= chunk_end || unit_after + next_bytes > HALF_BYTES ? 13'd0 : unit_after[12:0];
                if (!resident || block_end) begin
                    weight_base <= weight_base + group_start + group_bytes;
                    base_place <= in_ring(base_place + group_start + group_bytes);
                    weight_freed <= weight_freed + group_start + group_bytes;
                end
            end
            if (at_block) blocks_begun <= blocks_begun + 16'd1;
            if (last_part) started_last <= 1'b1;
            {chunks_so_far, units_so_far} <= {chunks_begun, units_begun};
            if (chunk_end) begin
                k_done <= last_k ? 16'd0 : k_done + k_n;
                input_half <= !input_half;
            end
            if (block_end) begin
                half <= !half;
                running <= !last_block;
                block_c <= block_c + block_n == channels ? 16'd0 : block_c + block_n;
                if (block_c + block_n == channels) begin
                    block_x <= block_x + block_w == width ? 16'd0 : block_x + block_w;
                    if (block_x + block_w == width) block_y <= block_y + block_h;
                end
            end
        end
    endtask

    // Operands: port q reads the word of one tap. A step uses one port, or 4 (depthwise), or 8 (packed kernel rows).
    // The input buffer is banked by pixel, so that neighbouring taps lie in different banks.

    (* nomem2reg *) reg [63:0] input_buffer[0:2*HALF_WORDS-1];
    (* nomem2reg *) reg [7:0]  weight_buffer[0:WEIGHT_BYTES-1];
    integer b;
    always @(posedge clk) begin
        for (b = 0; b < 8; b = b + 1) begin
            if (input_write && input_lanes[b]) input_buffer[input_place][8*b+:8] <= data[8*b+:8];
            if (weight_write && b < weight_bytes) weight_buffer[in_ring(loaded_place + b)] <= weight_data[8*b+:8];
        end
    end

    reg [63:0]         port_word[0:7];
    reg                port_valid[0:7];
    reg [2:0]          port_k[0:7];
    reg [8:0]          port_i, port_j, next_i, next_j;
    reg [2:0]          port_c, next_k;
    reg signed [25:0]  at_y, at_x;
    reg [31:0]         place;
    reg [15:0]         stored_y, stored_x;
    reg                advances;
    integer            q;

    always @* begin
        {port_i, port_j, port_c, next_i, next_j, next_k} = {tap_i, tap_j, tap_k, tap_i, tap_j, tap_k};
        for (q = 0; q < 8; q = q + 1) begin
            at_y = origin_y + row * $signed({17'd0, stride_h}) + port_i * $signed({17'd0, dilation_h});
            at_x = origin_x + pixel * $signed({17'd0, stride_w}) + port_j * $signed({17'd0, dilation_w});
            stored_y = row * pitch_y + port_i * dilation_h - skipped_y;
            stored_x = pixel * pitch_x + port_j * dilation_w - skipped_x;
            place = (input_half ? HALF_WORDS : 32'd0) + stored_y * {16'd0, span_x} + {16'd0, stored_x};
            port_valid[q] = port_i < kernel_h && q < step_rows && at_y >= 0 && at_x >= 0
                            && at_y < $signed({10'd0, layer[`NPUC_LAYER_IFM_HEIGHT]})
                            && at_x < $signed({10'd0, layer[`NPUC_LAYER_IFM_WIDTH]});
            port_word[q] = q == 0 || packed_rows || (depthwise && q < 4) ? input_buffer[place[11:0]] : 64'd0;
            port_k[q] = port_c;
            advances = packed_rows ? {14'd0, port_c} + 17'd1 == k_channels : 1'b1;
            port_c = !packed_rows || advances ? 3'd0 : port_c + 3'd1;
            if (advances) begin
                port_j = port_j + 9'd1;
                if (port_j == kernel_w) {port_i, port_j} = {port_i + 9'd1, 9'd0};
            end
            if (q == (depthwise ? 3 : packed_rows ? 7 : 0)) {next_i, next_j, next_k} = {port_i, port_j, port_c};
        end
        // What is behind the end of a kernel row has no weights: the next step begins a row.
        if (packed_rows && rows_left <= 16'd8) {next_i, next_j, next_k} = {tap_i + 9'd1, 9'd0, 3'd0};
    end

    // First stage: operands.
    reg signed [8:0]  left[0:LANES*LANES-1];
    reg signed [7:0]  right[0:LANES*LANES-1];
    reg               s0_valid, s0_first, s0_last, s0_clear;
    reg [8:0]         s0_entry;
    integer           l, o;
    wire              is_signed = layer[`NPUC_LAYER_IFM_TYPE] == 2'd0;

    function signed [8:0] centered(input [7:0] value, input sign, input signed [15:0] zero_point);
        reg signed [15:0] wide;
        begin
            wide = $signed({{8{sign & value[7]}}, value}) - zero_point;
            centered = wide[8:0];
        end
    endfunction

    function [7:0] channel_of(input [63:0] word, input [2:0] channel);
        channel_of = word[8*channel+:8];
    endfunction

    always @(posedge clk) begin
        for (l = 0; l < LANES; l = l + 1) begin
            for (o = 0; o < LANES; o = o + 1) begin
                left[8*l+o] <= l >= step_rows || !port_valid[depthwise || packed_rows ? l : 0] ? 9'sd0
                    : centered(depthwise ? channel_of(port_word[l], o)
                               : packed_rows ? channel_of(port_word[l], port_k[l]) : channel_of(port_word[0], l),
                               is_signed, layer[`NPUC_LAYER_IFM_ZERO_POINT]);
                right[8*l+o] <= l < step_rows && o < group_n
                    ? $signed(weight_buffer[in_ring(base_place + weight_offset + l * group_n + o)]) : 8'sd0;
            end
        end
        {s0_valid, s0_first, s0_last, s0_clear} <= {fire && !rst, step == 16'd0, last_step, k_done == 16'd0};
        s0_entry <= {half, entry[7:0]};
    end

    // Second stage: sums of products. Third stage: accumulators, written with the last step of a chunk.
    reg signed [20:0] sum[0:LANES-1];
    reg signed [31:0] so_far[0:LANES-1];
    reg               s1_valid, s1_first, s1_last, s1_clear;
    reg [8:0]         s1_entry;
    (* nomem2reg *) reg [32*LANES-1:0] accumulators[0:2*BLOCK_ENTRIES-1];
    reg signed [20:0] products[0:LANES-1];
    wire [32*LANES-1:0] held = s1_clear ? {LANES{32'd0}} : accumulators[s1_entry];
    integer           m, p, c;
    always @* begin
        for (p = 0; p < LANES; p = p + 1) begin
            products[p] = 0;
            for (m = 0; m < LANES; m = m + 1) products[p] = products[p] + left[8*m+p] * right[8*m+p];
        end
    end
    always @(posedge clk) begin
        for (c = 0; c < LANES; c = c + 1) begin
            sum[c] <= products[c];
            if (s1_valid) so_far[c] <= (s1_first ? 32'sd0 : so_far[c]) + sum[c];
            if (s1_valid && s1_last)
                accumulators[s1_entry][32*c+:32] <= $signed(held[32*c+:32]) + (s1_first ? 32'sd0 : so_far[c]) + sum[c];
        end
        {s1_valid, s1_first, s1_last, s1_clear, s1_entry} <= {s0_valid, s0_first, s0_last, s0_clear, s0_entry};
    end

    assign read_sums = accumulators[read_entry];
endmodule
