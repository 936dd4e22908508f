// The output stage: bias, requantization, clamp, table, residual operand, and the writes.
//
// An entry is one access of the output: 8 channels of a pixel, which touch one word of SRAM or two. A slot is one word.
// Slots are issued in order, one a cycle, as the array finishes entries; an access that touches two words issues the
// first one when the array has two steps left with it. A slot reaches the write port DRAIN_CYCLES after its issue.

`include "npuc_isa.vh"

module npuc_output #(
    parameter LANES = 8,
    parameter BLOCK_ENTRIES = 256,
    parameter RESIDUAL_WORDS = 512,
    parameter SCALE_CHANNELS = 1024,
    parameter WRITES = 64                    // slots under way
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          load,
    input  wire          valid,
    input  wire [255:0]  instruction,
    input  wire [1023:0] layer,
    // from the fetcher
    input  wire [63:0]   data,
    input  wire [3:0]    n_bytes,
    input  wire          scale_write,
    input  wire          table_write,
    input  wire          residual_write,
    input  wire [8:0]    residual_place,
    input  wire [7:0]    residual_lanes,
    input  wire          residual_loaded,
    output wire          block_output,       // with the residual operand of a block
    // from and to the array
    input  wire          finishes_entry,
    input  wire [15:0]   steps_left,
    input  wire [31:0]   entries_done,
    output wire [15:0]   blocks_output,      // whose accumulators may be written again
    output wire [8:0]    read_entry,
    input  wire [32*LANES-1:0] read_sums,
    output wire          done,               // every slot is issued after this cycle
    // SRAM write port
    output wire          request,
    output wire [26:0]   request_word,
    output wire [7:0]    request_lanes,
    output wire [63:0]   request_data,
    input  wire          grant,
    output wire          retire              // the last word is being written
);
    // Position ---------------------------------------------------------------------------------------------------------

    wire [15:0] y0 = instruction[`NPUC_MAC_CONV_Y], x0 = instruction[`NPUC_MAC_CONV_X], c0 = instruction[`NPUC_MAC_CONV_C];
    wire [16:0] height = instruction[`NPUC_MAC_CONV_HEIGHT] + 17'd1;
    wire [16:0] width = instruction[`NPUC_MAC_CONV_WIDTH] + 17'd1;
    wire [16:0] channels = instruction[`NPUC_MAC_CONV_CHANNELS] + 17'd1;

    function [15:0] least(input [16:0] a, input [16:0] b);
        least = a < b ? a[15:0] : b[15:0];
    endfunction

    reg         issuing, second, half;
    reg [15:0]  block_y, block_x, block_c, group, row, pixel, blocks_issued;
    reg [8:0]   entry;
    reg [31:0]  entries_issued, residuals_loaded, residuals_used;

    wire [15:0] block_h = least(layer[`NPUC_LAYER_BLOCK_H] + 17'd1, height - block_y);
    wire [15:0] block_w = least(layer[`NPUC_LAYER_BLOCK_W] + 17'd1, width - block_x);
    wire [15:0] block_n = least({5'd0, layer[`NPUC_LAYER_BLOCK_C], 3'd0} + 17'd8, channels - block_c);
    wire [15:0] group_n = least(17'd8, block_n - (group << 3));
    wire        last_c = block_c + block_n == channels, last_x = block_x + block_w == width;
    wire        last_block = last_c && last_x && block_y + block_h == height;
    wire        last_pixel = pixel + 16'd1 == block_w, last_row = row + 16'd1 == block_h;
    wire        last_group = (group << 3) + group_n == block_n;
    wire        block_end = last_pixel && last_row && last_group;

    wire [29:0] address;
    npuc_address ofm (
        .tensor(layer[`NPUC_LAYER_OFM_TENSOR]), .channels(layer[`NPUC_LAYER_OFM_CHANNELS]),
        .n(instruction[`NPUC_MAC_CONV_N]), .y(y0 + block_y + row), .x(x0 + block_x + pixel),
        .c(c0 + block_c + (group << 3)), .address(address));
    wire        splits = {1'b0, address[2:0]} + group_n[3:0] > 4'd8;

    function [15:0] record_bytes(input [1:0] form);
        record_bytes = form == 2'd0 ? 16'd10 : {14'd0, form} + 16'd5;
    endfunction

    reg [6:0]   under_way;
    reg [15:0]  scale_end, lookup_end;       // bytes loaded
    wire        has_constants = scale_end >= record_bytes(layer[`NPUC_LAYER_SCALE_FORM]) * (block_c + block_n)
                                && (!layer[`NPUC_LAYER_USE_TABLE] || lookup_end == 16'd256);
    wire        use_residual = layer[`NPUC_LAYER_USE_RESIDUAL];
    wire        is_finished = entries_done != entries_issued || (finishes_entry && steps_left <= (splits ? 16'd2 : 16'd1));
    wire        fire = issuing && under_way < WRITES - 1 && has_constants
                       && (second || (is_finished && (!use_residual || residuals_loaded != residuals_used)));
    wire        entry_end = fire && (second || !splits);
    assign done = !valid || !issuing || (entry_end && block_end && last_block);
    assign blocks_output = blocks_issued;
    assign block_output = entry_end && block_end && use_residual;

    always @(posedge clk) begin
        if (residual_loaded) residuals_loaded <= residuals_loaded + 32'd1;
        if (fire) second <= splits && !second;
        if (entry_end) begin
            entries_issued <= entries_issued + 32'd1;
            if (use_residual) residuals_used <= residuals_used + 32'd1;
            entry <= block_end ? 9'd0 : entry + 9'd1;
            pixel <= last_pixel ? 16'd0 : pixel + 16'd1;
            if (last_pixel) row <= last_row ? 16'd0 : row + 16'd1;
            if (last_pixel && last_row) group <= last_group ? 16'd0 : group + 16'd1;
            if (block_end) begin
                {half, blocks_issued, issuing} <= {!half, blocks_issued + 16'd1, !last_block};
                block_c <= last_c ? 16'd0 : block_c + block_n;
                if (last_c) block_x <= last_x ? 16'd0 : block_x + block_w;
                if (last_c && last_x) block_y <= block_y + block_h;
            end
        end
        if (load) begin
            {issuing, second, half} <= 3'b100;
            {block_y, block_x, block_c, group, row, pixel, entry, entries_issued, blocks_issued} <= 0;
        end
        if (rst) {issuing, residuals_loaded, residuals_used} <= 0;
    end

    // Buffers ----------------------------------------------------------------------------------------------------------

    (* nomem2reg *) reg [7:0]  scales[0:10*SCALE_CHANNELS-1];
    (* nomem2reg *) reg [7:0]  lookup[0:511];     // of this instruction and its predecessor
    (* nomem2reg *) reg [63:0] residuals[0:RESIDUAL_WORDS-1];
    integer    b;
    always @(posedge clk) begin
        for (b = 0; b < 8; b = b + 1) begin
            if (scale_write && b < n_bytes) scales[scale_end+b] <= data[8*b+:8];
            if (table_write && b < n_bytes) lookup[{parity, lookup_end[7:0]}+b] <= data[8*b+:8];
            if (residual_write && residual_lanes[b]) residuals[residual_place][8*b+:8] <= data[8*b+:8];
        end
        if (scale_write) scale_end <= scale_end + {12'd0, n_bytes};
        if (table_write) lookup_end <= lookup_end + {12'd0, n_bytes};
        if (load || rst) {scale_end, lookup_end} <= 0;
    end

    // Pipeline ---------------------------------------------------------------------------------------------------------
    // A slot is in stage n n cycles after its issue. Stage 1 reads the constants of its channels, 2 spreads short
    // records to the fields of long ones; 3 or 4 reads its sums; 4 adds the bias; 5 and 6 requantize; 7 looks up; 8 to 11 add the residual operand; 15 puts the word into the queue of the
    // port. What is left of the 16 cycles is margin.

    localparam STAGES = 15, CONTROL_BITS = 1 + 1 + 1 + 1 + 30 + 4 + 9 + 9 + 16 + 1;
    reg [CONTROL_BITS-1:0] control[1:STAGES];
    reg [8*LANES-1:0]      bytes[12:STAGES];
    integer                s;
    always @(posedge clk) begin
        control[1] <= {fire && !rst, second, entry_end && block_end && last_block, parity, address, group_n[3:0],
                       half, entry[7:0], residuals_used[8:0], block_c + (group << 3), splits};
        for (s = 2; s <= STAGES; s = s + 1) control[s] <= rst ? 0 : control[s-1];
        for (s = 13; s <= STAGES; s = s + 1) bytes[s] <= bytes[s-1];
    end

    // Slots of the predecessor may still be on their way when an instruction becomes the back: they keep its constants.
    reg          parity;
    reg [1023:0] previous;
    always @(posedge clk) begin
        if (load) {parity, previous} <= {!parity, layer};
        if (rst) parity <= 1'b0;
    end
    wire [1:0]    form_1 = control[1][69] == parity ? layer[`NPUC_LAYER_SCALE_FORM] : previous[`NPUC_LAYER_SCALE_FORM];
    wire [1023:0] layer_5 = control[5][69] == parity ? layer : previous, layer_6 = control[6][69] == parity ? layer : previous;
    wire [1023:0] layer_7 = control[7][69] == parity ? layer : previous, layer_8 = control[8][69] == parity ? layer : previous;
    wire [1023:0] layer_10 = control[10][69] == parity ? layer : previous;
    wire [1023:0] layer_11 = control[11][69] == parity ? layer : previous;

    // Sums are in memory three cycles after the step that finishes them, and are read so late that a block may be begun in
    // their place in the cycle after the last issue: three cycles after the issue, and four where the first of two words is
    // issued a step early; the second word uses what the first one has read.
    wire        reads_3 = control[3][CONTROL_BITS-1] && !control[3][0];
    wire        reads_4 = control[4][CONTROL_BITS-1] && control[4][0] && !control[4][CONTROL_BITS-2];
    assign read_entry = reads_4 ? control[4][34:26] : control[3][34:26];
    reg [32*LANES-1:0]  held_sums;
    wire [32*LANES-1:0] entry_sums = reads_4 ? read_sums : held_sums;
    always @(posedge clk) if (reads_3 || reads_4) held_sums <= read_sums;

    wire [15:0] channel = control[1][16:1];
    wire [8:0]  residual_at = control[8][25:17];
    wire        table_parity = control[7][69];

    wire is_signed = layer_7[`NPUC_LAYER_OFM_TYPE] == 2'd0, is_signed_2 = layer_8[`NPUC_LAYER_IFM2_TYPE] == 2'd0;
    wire signed [15:0] mid_zero = layer_8[`NPUC_LAYER_MID_ZERO_POINT], zero_2 = layer_8[`NPUC_LAYER_IFM2_ZERO_POINT];
    wire [4:0] raise = layer_8[`NPUC_LAYER_LEFT_SHIFT];

    function signed [15:0] clamp(input signed [33:0] wide, input signed [15:0] zero, low, high);
        reg signed [35:0] moved;
        begin
            moved = wide + zero;
            clamp = moved < low ? low : moved > high ? high : moved[15:0];
        end
    endfunction

    wire [63:0] residual_word = residuals[residual_at];
    genvar      g;
    generate
        for (g = 0; g < LANES; g = g + 1) begin : lane
            // Stages 1 to 6: constants, bias and requantization.
            wire [15:0] at = record_bytes(form_1) * (channel + g);
            reg [1:0]   form_2;
            reg [69:0]  constants_2, constants_3, constants_4;
            wire [31:0] bias_2 = form_2 == 2'd1 ? {{20{constants_2[47]}}, constants_2[47:36]}
                                 : form_2 == 2'd2 ? {{12{constants_2[55]}}, constants_2[55:36]}
                                 : {{4{constants_2[63]}}, constants_2[63:36]};
            reg signed [31:0] sum, multiplier;
            reg [5:0]  shift;
            always @(posedge clk) begin
                constants_2 <= {scales[at+8][5:0], scales[at+7], scales[at+6], scales[at+5], scales[at+4],
                                scales[at+3], scales[at+2], scales[at+1], scales[at]};
                form_2 <= form_1;
                constants_3 <= form_2 == 2'd0 ? constants_2
                               : {constants_2[35:30], 2'b01, constants_2[29:0], bias_2};
                constants_4 <= constants_3;
                sum <= $signed(entry_sums[32*g+:32]) + $signed(constants_4[31:0]);
                {shift, multiplier} <= constants_4[69:32];
            end
            wire signed [33:0] scaled;
            npuc_rescale requantize (
                .clk(clk), .value({{2{sum[31]}}, sum}), .multiplier(multiplier), .shift(shift),
                .double_round(layer_5[`NPUC_LAYER_DOUBLE_ROUND]), .result(scaled));
            reg signed [15:0] clamped, mapped;
            wire [7:0]        index = clamped[7:0] + 8'd128;
            wire [7:0]        found = lookup[{table_parity, index}];
            always @(posedge clk) begin
                clamped <= layer_6[`NPUC_LAYER_USE_RESIDUAL]
                    ? clamp(scaled, layer_6[`NPUC_LAYER_MID_ZERO_POINT], layer_6[`NPUC_LAYER_MID_LOW], layer_6[`NPUC_LAYER_MID_HIGH])
                    : clamp(scaled, layer_6[`NPUC_LAYER_OFM_ZERO_POINT], layer_6[`NPUC_LAYER_CLAMP_LOW], layer_6[`NPUC_LAYER_CLAMP_HIGH]);
                mapped <= layer_7[`NPUC_LAYER_USE_TABLE] ? $signed({{8{is_signed & found[7]}}, found}) : clamped;
            end
            // Stages 8 to 11: both operands raised and rescaled, their sum rescaled.
            wire [7:0]         other = residual_word[8*g+:8];
            wire signed [15:0] other_value = {{8{is_signed_2 & other[7]}}, other};
            wire signed [33:0] first = {{18{mapped[15]}}, mapped} - {{18{mid_zero[15]}}, mid_zero};
            wire signed [33:0] second_operand = {{18{other_value[15]}}, other_value} - {{18{zero_2[15]}}, zero_2};
            wire signed [33:0] scaled_1, scaled_2, added;
            reg signed [33:0]  total;
            npuc_rescale rescale_1 (
                .clk(clk), .value(first <<< raise), .multiplier(layer_8[`NPUC_LAYER_MULTIPLIER_1]),
                .shift(layer_8[`NPUC_LAYER_SHIFT_1] & 6'h3f), .double_round(1'b1), .result(scaled_1));
            npuc_rescale rescale_2 (
                .clk(clk), .value(second_operand <<< raise), .multiplier(layer_8[`NPUC_LAYER_MULTIPLIER_2]),
                .shift(layer_8[`NPUC_LAYER_SHIFT_2] & 6'h3f), .double_round(1'b1), .result(scaled_2));
            npuc_rescale rescale_out (
                .clk(clk), .value(total), .multiplier(layer_10[`NPUC_LAYER_MULTIPLIER_OUT]),
                .shift(layer_10[`NPUC_LAYER_SHIFT_OUT] & 6'h3f), .double_round(1'b1), .result(added));
            reg [7:0] mapped_9, mapped_10, mapped_11;
            always @(posedge clk) begin
                total <= scaled_1 + scaled_2;
                {mapped_11, mapped_10, mapped_9} <= {mapped_10, mapped_9, mapped[7:0]};
                bytes[12][8*g+:8] <= !layer_11[`NPUC_LAYER_USE_RESIDUAL] ? {8'd0, mapped_11}
                    : clamp(added, layer_11[`NPUC_LAYER_OFM_ZERO_POINT], layer_11[`NPUC_LAYER_CLAMP_LOW], layer_11[`NPUC_LAYER_CLAMP_HIGH]);
            end
        end
    endgenerate

    // Writes -----------------------------------------------------------------------------------------------------------

    localparam WRITE_BITS = 1 + 27 + 8 + 64;
    reg [WRITE_BITS-1:0] writes[0:WRITES-1];
    reg [5:0]            head, tail;
    reg [6:0]            waiting;
    wire                 slot, slot_second, slot_last;
    wire [29:0]          slot_address;
    wire [3:0]           slot_n;
    assign {slot, slot_second, slot_last, slot_address, slot_n} = {control[STAGES][CONTROL_BITS-1:70], control[STAGES][68:35]};
    wire [2:0]   slot_byte = slot_address[2:0];
    wire [15:0]  lanes = {8'd0, ~(8'hff << slot_n)} << slot_byte;
    wire [127:0] shifted = {64'd0, bytes[STAGES]} << {slot_byte, 3'd0};
    always @(posedge clk) begin
        if (slot) begin
            writes[tail] <= {slot_last, slot_address[29:3] + {26'd0, slot_second},
                             slot_second ? lanes[15:8] : lanes[7:0], slot_second ? shifted[127:64] : shifted[63:0]};
            tail <= tail + 6'd1;
        end
        if (grant) head <= head + 6'd1;
        waiting <= waiting + {6'd0, slot} - {6'd0, grant};
        under_way <= under_way + {6'd0, fire} - {6'd0, grant};
        if (rst) {head, tail, waiting, under_way} <= 0;
    end
    wire is_last;
    assign {is_last, request_word, request_lanes, request_data} = writes[head];
    assign request = waiting != 7'd0;
    assign retire = grant && is_last;
endmodule
