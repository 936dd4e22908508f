// Queues, progress counters, the MAC unit, both DMA units, and the SRAM port that they share.
//
// The vector unit and the Arm core are outside: their counters come in. So is the fetcher of instructions: `push` puts an
// instruction with the descriptor that it captured into a queue (0 DMA-in, 1 DMA-out, 2 MAC).

`include "npuc_isa.vh"

module npuc_core (
    input  wire          clk,
    input  wire          rst,
    input  wire          push,
    input  wire [1:0]    push_queue,
    input  wire [255:0]  push_instruction,
    input  wire [1023:0] push_descriptor,
    output wire [2:0]    full,
    input  wire [15:0]   vector_retired,
    input  wire [15:0]   arm_retired,
    output wire [47:0]   retired,            // counters of the three queues
    output wire [2:0]    start,              // events of this cycle, a bit a queue
    output wire [2:0]    issue_end,
    output wire [2:0]    retire,
    // SRAM: a read and a write a cycle; responses in order
    output wire          sram_read,
    output wire [26:0]   sram_read_word,
    input  wire          sram_response,
    input  wire [63:0]   sram_response_data,
    output wire          sram_write,
    output wire [26:0]   sram_write_word,
    output wire [7:0]    sram_write_lanes,
    output wire [63:0]   sram_write_data,
    // Flash: a byte a cycle when granted; responses in order
    output wire          flash_request,
    output wire [29:0]   flash_address,
    input  wire          flash_grant,
    input  wire          flash_response,
    input  wire [7:0]    flash_data
);
    // Progress counters and queues ------------------------------------------------------------------------------------

    reg [15:0] counter[0:2];
    integer    q;
    always @(posedge clk) begin
        for (q = 0; q < 3; q = q + 1) counter[q] <= rst ? 16'd0 : counter[q] + {15'd0, retire[q]};
    end
    assign retired = {counter[2], counter[1], counter[0]};
    wire [79:0]   counters = {arm_retired, vector_retired, retired};
    wire [2:0]    ready;
    wire [255:0]  head[0:2];
    wire [1023:0] mac_layer;
    wire [`NPUC_DMA_BITS-1:0] dma_descriptor[0:1];

    genvar u;
    generate
        for (u = 0; u < 2; u = u + 1) begin : dma_queue
            npuc_queue #(.DESCRIPTOR_BITS(`NPUC_DMA_BITS)) entries (
                .clk(clk), .rst(rst), .push(push && push_queue == u), .push_instruction(push_instruction),
                .push_descriptor(push_descriptor[`NPUC_DMA_BITS-1:0]), .full(full[u]), .counters(counters),
                .ready(ready[u]), .pop(start[u]), .instruction(head[u]), .descriptor(dma_descriptor[u]));
        end
    endgenerate
    npuc_queue mac_queue (
        .clk(clk), .rst(rst), .push(push && push_queue == `NPUC_QUEUE_MAC), .push_instruction(push_instruction),
        .push_descriptor(push_descriptor), .full(full[2]), .counters(counters), .ready(ready[2]), .pop(start[2]),
        .instruction(head[2]), .descriptor(mac_layer));

    // Ports ------------------------------------------------------------------------------------------------------------

    wire [1:0]  read_request, read_grant;             // MAC, DMA-out
    wire [2:0]  write_request, write_grant;           // MAC, DMA-in, DMA-out
    wire [26:0] mac_read_word, write_word[0:2];
    wire [29:0] out_read_address;
    wire [7:0]  write_lanes[0:2];
    wire [63:0] write_data[0:2];
    npuc_arbiter #(.N(2)) read_port (.clk(clk), .rst(rst), .request(read_request), .grant(read_grant));
    npuc_arbiter #(.N(3)) write_port (.clk(clk), .rst(rst), .request(write_request), .grant(write_grant));
    assign sram_read = read_request != 2'd0;
    assign sram_read_word = read_grant[0] ? mac_read_word : out_read_address[29:3];
    wire [1:0]  writer = write_grant[0] ? 2'd0 : write_grant[1] ? 2'd1 : 2'd2;
    assign sram_write = write_request != 3'd0;
    assign sram_write_word = write_word[writer];
    assign sram_write_lanes = write_lanes[writer];
    assign sram_write_data = write_data[writer];

    // Whose response comes next.
    reg         owners[0:127];
    reg [6:0]   owner_head, owner_tail;
    wire        owner = owners[owner_head];
    always @(posedge clk) begin
        if (sram_read) begin
            owners[owner_tail] <= read_grant[1];
            owner_tail <= owner_tail + 7'd1;
        end
        if (sram_response) owner_head <= owner_head + 7'd1;
        if (rst) {owner_head, owner_tail} <= 0;
    end

    // Units ------------------------------------------------------------------------------------------------------------

    npuc_mac mac (
        .clk(clk), .rst(rst), .ready(ready[2]), .next_instruction(head[2]), .next_layer(mac_layer), .start(start[2]),
        .issue_end(issue_end[2]), .retire(retire[2]), .read_request(read_request[0]), .read_word(mac_read_word),
        .read_grant(read_grant[0]), .read_response(sram_response && !owner), .read_data(sram_response_data),
        .write_request(write_request[0]), .write_word(write_word[0]), .write_lanes(write_lanes[0]),
        .write_data(write_data[0]), .write_grant(write_grant[0]));

    npuc_dma #(.SOURCE_UNIT(1)) dma_in (
        .clk(clk), .rst(rst), .ready(ready[0]), .next_instruction(head[0]), .next_descriptor(dma_descriptor[0]),
        .start(start[0]), .issue_end(issue_end[0]), .retire(retire[0]), .read_request(flash_request),
        .read_address(flash_address), .read_grant(flash_grant), .read_response(flash_response),
        .read_data({56'd0, flash_data}), .write_request(write_request[1]), .write_word(write_word[1]),
        .write_lanes(write_lanes[1]), .write_data(write_data[1]), .write_grant(write_grant[1]));

    npuc_dma dma_out (
        .clk(clk), .rst(rst), .ready(ready[1]), .next_instruction(head[1]), .next_descriptor(dma_descriptor[1]),
        .start(start[1]), .issue_end(issue_end[1]), .retire(retire[1]), .read_request(read_request[1]),
        .read_address(out_read_address), .read_grant(read_grant[1]), .read_response(sram_response && owner),
        .read_data(sram_response_data), .write_request(write_request[2]), .write_word(write_word[2]),
        .write_lanes(write_lanes[2]), .write_data(write_data[2]), .write_grant(write_grant[2]));
endmodule
