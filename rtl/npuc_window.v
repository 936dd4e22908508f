// Input positions along one axis (rows or pixels) that a block of output positions needs, and where a chunk keeps them.
//
// Without gaps the block needs one interval. When the stride exceeds the window, the positions in between are skipped:
// every output position has an interval of its own, and the chunk stores these one after the other. Positions outside
// the tensor are never fetched, and the array reads them as the zero point; only between gaps there is room for them.

module npuc_window (
    input  wire [15:0]        first,       // first output position of the block
    input  wire [15:0]        size,        // output positions of the block
    input  wire [8:0]         stride,
    input  wire [8:0]         kernel,
    input  wire [8:0]         dilation,
    input  wire [7:0]         pad,
    input  wire [15:0]        limit,       // positions of the tensor
    output wire signed [25:0] origin,      // input position of the first tap
    output wire [15:0]        intervals,
    output wire [15:0]        length,      // positions of an interval
    output wire [15:0]        pitch,       // stored positions between neighbouring output positions
    output wire [15:0]        skipped,     // positions of the interval before the tensor, which are not stored
    output wire [15:0]        span         // stored positions
);
    wire [15:0] reach = (kernel - 9'd1) * dilation + 16'd1;
    wire        gaps = {7'd0, stride} > reach;

    assign origin = $signed({10'd0, first}) * $signed({17'd0, stride}) - $signed({18'd0, pad});
    assign intervals = gaps ? size : 16'd1;
    assign length = gaps ? reach : (size - 16'd1) * {7'd0, stride} + reach;
    assign pitch = gaps ? reach : {7'd0, stride};
    wire signed [25:0] behind = origin + $signed({10'd0, length}) - $signed({10'd0, limit});
    wire [15:0] not_stored = behind > 0 ? behind[15:0] : 16'd0;
    assign skipped = gaps || origin >= 0 ? 16'd0 : -origin[15:0];
    assign span = gaps ? size * reach : length - skipped - not_stored;
endmodule
