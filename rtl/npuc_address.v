// Byte address of one element of a tensor operand: the strided layout with ring rows and a ragged last channel block.
// Channel blocks have as many channels as a memory word has bytes.

`include "npuc_isa.vh"

module npuc_address (
    input  wire [`NPUC_TENSOR_BITS-1:0] tensor,
    input  wire [15:0]                  channels,    // of the whole tensor: decides the ragged last block
    input  wire [10:0]                  n,
    input  wire [15:0]                  y,
    input  wire [15:0]                  x,
    input  wire [15:0]                  c,
    output wire [29:0]                  address
);
    wire [31:0] base = tensor[`NPUC_TENSOR_BASE];
    wire [15:0] pixel = tensor[`NPUC_TENSOR_PIXEL];
    wire [23:0] row = tensor[`NPUC_TENSOR_ROW];
    wire [23:0] block = tensor[`NPUC_TENSOR_BLOCK];
    wire [23:0] batch = tensor[`NPUC_TENSOR_BATCH];
    wire [7:0]  last_pixel = tensor[`NPUC_TENSOR_LAST_PIXEL];
    wire [23:0] last_row = tensor[`NPUC_TENSOR_LAST_ROW];
    wire [15:0] ring = tensor[`NPUC_TENSOR_RING];

    wire        ragged = channels[2:0] != 3'd0 && c[15:3] == channels[15:3];
    wire [15:0] pixel_stride = ragged && last_pixel != 8'd0 ? {8'd0, last_pixel} : pixel;
    wire [23:0] row_stride = ragged && last_row != 24'd0 ? last_row : row;
    wire [15:0] slot = ring == 16'd0 ? y : y % ring;

    wire [39:0] sum = base[29:0] + n * {29'd0, batch} + c[15:3] * {16'd0, block} + slot * {16'd0, row_stride}
                      + x * {24'd0, pixel_stride} + {37'd0, c[2:0]};
    assign address = sum[29:0];
endmodule
