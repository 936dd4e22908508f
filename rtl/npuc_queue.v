// One unit's queue: instructions with their captured descriptors, and the conditions of the head.

`include "npuc_isa.vh"

module npuc_queue #(
    parameter DEPTH = 16,
    parameter DESCRIPTOR_BITS = `NPUC_LAYER_BITS
) (
    input  wire                       clk,
    input  wire                       rst,
    input  wire                       push,
    input  wire [255:0]               push_instruction,
    input  wire [DESCRIPTOR_BITS-1:0] push_descriptor,
    output wire                       full,
    input  wire [79:0]                counters,       // retired instructions of queues 0 to 4, 16 bits each
    output wire                       ready,          // there is a head, and its conditions hold
    input  wire                       pop,
    output wire [255:0]               instruction,
    output wire [DESCRIPTOR_BITS-1:0] descriptor
);
    localparam PLACE = $clog2(DEPTH);

    reg [255:0]               instructions[0:DEPTH-1];
    reg [DESCRIPTOR_BITS-1:0] descriptors[0:DEPTH-1];
    reg [PLACE-1:0]           head, tail;
    reg [PLACE:0]             used;

    assign full = used == DEPTH[PLACE:0];
    assign instruction = instructions[head];
    assign descriptor = descriptors[head];

    // Condition (queue, count) holds while (retired - count) modulo 2^16 is below 2^15.
    function holds(input [2:0] number, input [15:0] count, input [79:0] all);
        reg [15:0] distance;
        begin
            distance = all[number*16+:16] - count;
            holds = number == `NPUC_QUEUE_NONE || !distance[15];
        end
    endfunction

    wire [6:0] opcode = instruction[`NPUC_INSTRUCTION_OPCODE];
    wire       is_wait = opcode[6:2] == 5'b00010;
    wire       header_holds = holds(instruction[`NPUC_INSTRUCTION_WAIT0_QUEUE], instruction[`NPUC_INSTRUCTION_WAIT0_COUNT], counters)
                              && holds(instruction[`NPUC_INSTRUCTION_WAIT1_QUEUE], instruction[`NPUC_INSTRUCTION_WAIT1_COUNT], counters)
                              && holds(instruction[`NPUC_INSTRUCTION_WAIT2_QUEUE], instruction[`NPUC_INSTRUCTION_WAIT2_COUNT], counters);
    wire       more_holds = holds(instruction[`NPUC_WAIT_MAC_MORE0_QUEUE], instruction[`NPUC_WAIT_MAC_MORE0_COUNT], counters)
                            && holds(instruction[`NPUC_WAIT_MAC_MORE1_QUEUE], instruction[`NPUC_WAIT_MAC_MORE1_COUNT], counters)
                            && holds(instruction[`NPUC_WAIT_MAC_MORE2_QUEUE], instruction[`NPUC_WAIT_MAC_MORE2_COUNT], counters);
    assign ready = used != 0 && header_holds && (!is_wait || more_holds);

    always @(posedge clk) begin
        if (push) begin
            instructions[tail] <= push_instruction;
            descriptors[tail] <= push_descriptor;
            tail <= tail == DEPTH - 1 ? 0 : tail + 1'b1;
        end
        if (pop) head <= head == DEPTH - 1 ? 0 : head + 1'b1;
        used <= used + {{PLACE{1'b0}}, push} - {{PLACE{1'b0}}, pop};
        if (rst) begin
            head <= 0;
            tail <= 0;
            used <= 0;
        end
    end
endmodule
