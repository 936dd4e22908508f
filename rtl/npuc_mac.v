// The MAC unit: fetcher, array and output stage, and when an instruction moves from one to the next.
//
// The fetcher works on one instruction (the front), array and output stage on one (the back), which may be the same. An
// instruction starts when the front is free: its predecessor has begun its last part, for which all its loads are done. It
// becomes the back when its predecessor has issued its last write.

`include "npuc_isa.vh"

module npuc_mac #(
    parameter WEIGHT_BYTES = 8192            // both halves of the weight buffer
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          ready,
    input  wire [255:0]  next_instruction,
    input  wire [1023:0] next_layer,
    output wire          start,              // takes the head of the queue
    output wire          issue_end,
    output wire          retire,
    output wire          read_request,
    output wire [26:0]   read_word,
    input  wire          read_grant,
    input  wire          read_response,
    input  wire [63:0]   read_data,
    output wire          write_request,
    output wire [26:0]   write_word,
    output wire [7:0]    write_lanes,
    output wire [63:0]   write_data,
    input  wire          write_grant
);
    wire          front_valid, all_loaded;
    wire [255:0]  front_instruction;
    wire [1023:0] front_layer;
    reg           front_owned, back_valid, is_waiting;
    reg [255:0]   instruction;
    reg [1023:0]  layer;
    reg [7:0]     in_flight;                 // started, not retired

    wire is_wait = next_instruction[`NPUC_INSTRUCTION_OPCODE] == `NPUC_OP_WAIT_MAC;
    wire in_last_part, array_done, output_done, output_retire;
    assign issue_end = front_valid && front_owned && all_loaded && in_last_part;
    assign start = ready && !is_waiting && (!front_valid || issue_end);
    wire   load = front_valid && !front_owned && array_done && output_done;
    // A wait retires in order: when nothing before it is left.
    wire wait_retire = (is_waiting || (start && is_wait)) && in_flight == 8'd0;
    assign retire = output_retire || wait_retire;

    always @(posedge clk) begin
        if (load) {instruction, layer} <= {front_instruction, front_layer};
        front_owned <= !(start || issue_end) && (front_owned || load);
        back_valid <= load || back_valid;
        is_waiting <= (is_waiting || (start && is_wait)) && !wait_retire;
        in_flight <= in_flight + {7'd0, start && !is_wait} - {7'd0, output_retire};
        if (rst) {front_owned, back_valid, is_waiting, in_flight} <= 0;
    end

    // Coded weights come in the order of the layout: with several chunks all of a block's are in the buffer at once. A
    // block whose weights do not fit is taken group by group.
    wire [15:0]  taps = (next_layer[`NPUC_LAYER_KERNEL_H] + 9'd1) * (next_layer[`NPUC_LAYER_KERNEL_W] + 9'd1);
    wire [16:0]  k_channels = next_instruction[`NPUC_MAC_CONV_K_CHANNELS] + 17'd1;
    wire [16:0]  channels = next_instruction[`NPUC_MAC_CONV_CHANNELS] + 17'd1;
    wire [16:0]  block_channels = {5'd0, next_layer[`NPUC_LAYER_BLOCK_C], 3'd0} + 17'd8;
    wire [47:0]  block_weights = (block_channels < channels ? block_channels : channels) * k_channels * {32'd0, taps};
    wire         by_group = next_instruction[`NPUC_MAC_CONV_CODED_WORDS] != 16'd0 && k_channels > 17'd8
                            && next_instruction[`NPUC_INSTRUCTION_OPCODE] != `NPUC_OP_MAC_DEPTHWISE && block_weights > WEIGHT_BYTES;
    reg [1023:0] start_layer;
    always @* begin
        start_layer = next_layer;
        if (by_group) start_layer[`NPUC_LAYER_BLOCK_C] = 0;
    end

    wire [63:0] data;
    wire [3:0]  n_bytes;
    wire        code_write, decode_pass, decoded_write, decode_room, decode_done;
    wire [31:0] decode_weights;
    wire [63:0] decoded;
    wire [3:0]  decoded_bytes;
    wire        input_write, weight_write, scale_write, table_write, residual_write;
    wire        chunk_loaded, residual_loaded, block_output;
    wire [7:0]   chunks_begun, units_begun;
    wire [11:0] place;
    wire [8:0]  read_entry;
    wire [7:0]  lanes;
    wire [31:0] weight_freed, entries_done;
    wire        finishes_entry;
    wire [15:0] steps_left, blocks_output;
    wire [255:0] read_sums;

    // Fetcher and decoder take turns at the read port.
    wire [1:0]  request, grant;
    wire [26:0] fetch_word, stream_word;
    reg         owners[0:255];
    reg [7:0]   owner_head, owner_tail;
    wire        owner = owners[owner_head];
    reg         stream_was_last;
    assign grant = request != 2'b11 ? request : stream_was_last ? 2'b01 : 2'b10;
    assign read_request = request != 2'd0;
    assign read_word = grant[0] ? fetch_word : stream_word;
    always @(posedge clk) begin
        if (read_grant) begin
            owners[owner_tail] <= grant[1];
            stream_was_last <= grant[1];
            owner_tail <= owner_tail + 8'd1;
        end
        if (read_response) owner_head <= owner_head + 8'd1;
        if (rst) {owner_head, owner_tail, stream_was_last} <= 0;
    end

    npuc_decoder decoder (
        .clk(clk), .rst(rst), .start(start && !is_wait), .start_address(next_instruction[`NPUC_MAC_CONV_WEIGHTS]),
        .start_words(next_instruction[`NPUC_MAC_CONV_CODED_WORDS]), .n_pass_weights(decode_weights),
        .table_write(code_write), .data(data), .n_bytes(n_bytes), .table_units(front_layer[`NPUC_LAYER_CODE_TABLE]),
        .pass(decode_pass), .done(decode_done), .request(request[1]), .request_word(stream_word),
        .grant(grant[1] && read_grant), .response(read_response && owner), .response_data(read_data),
        .has_room(decode_room), .write(decoded_write), .weights(decoded), .n_weights(decoded_bytes));

    npuc_fetch fetch (
        .clk(clk), .rst(rst), .start(start && !is_wait), .start_instruction(next_instruction), .start_layer(start_layer),
        .release_front(issue_end), .valid(front_valid), .instruction(front_instruction), .layer(front_layer),
        .owned(front_owned), .chunks_begun(chunks_begun), .units_begun(units_begun),
        .request(request[0]), .request_word(fetch_word), .grant(grant[0] && read_grant),
        .response(read_response && !owner), .response_data(read_data), .data(data), .n_bytes(n_bytes),
        .code_write(code_write), .decode_pass(decode_pass), .decode_weights(decode_weights),
        .decoded_write(decoded_write), .decoded_bytes(decoded_bytes), .decode_room(decode_room), .decode_done(decode_done),
        .taken_place(place), .lanes(lanes), .input_write(input_write), .weight_write(weight_write),
        .scale_write(scale_write), .table_write(table_write), .residual_write(residual_write), .chunk_loaded(chunk_loaded),
        .residual_loaded(residual_loaded), .all_loaded(all_loaded),
        .weight_freed(weight_freed), .block_output(block_output));

    npuc_array array (
        .clk(clk), .rst(rst), .load(load), .valid(back_valid), .instruction(instruction), .layer(layer),
        .data(data), .input_write(input_write), .input_place(place), .input_lanes(lanes),
        .weight_write(weight_write || decoded_write),
        .weight_data(decoded_write ? decoded : data), .weight_bytes(decoded_write ? decoded_bytes : n_bytes),
        .chunk_loaded(chunk_loaded), .may_finish(front_owned && all_loaded),
        .weight_freed(weight_freed), .chunks_begun(chunks_begun), .units_begun(units_begun),
        .blocks_output(blocks_output), .in_last_part(in_last_part), .finishes_entry(finishes_entry),
        .steps_left(steps_left), .entries_done(entries_done), .done(array_done), .read_entry(read_entry),
        .read_sums(read_sums));

    npuc_output stage (
        .clk(clk), .rst(rst), .load(load), .valid(back_valid), .instruction(instruction), .layer(layer),
        .data(data), .n_bytes(n_bytes), .scale_write(scale_write), .table_write(table_write),
        .residual_write(residual_write), .residual_place(place[8:0]), .residual_lanes(lanes),
        .residual_loaded(residual_loaded), .block_output(block_output),
        .finishes_entry(finishes_entry), .steps_left(steps_left), .entries_done(entries_done),
        .blocks_output(blocks_output), .read_entry(read_entry), .read_sums(read_sums), .done(output_done),
        .request(write_request), .request_word(write_word), .request_lanes(write_lanes), .request_data(write_data),
        .grant(write_grant), .retire(output_retire));
endmodule
