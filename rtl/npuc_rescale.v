// TOSA 1.0 apply_scale_32: (value * multiplier + round) >> shift, exact in 64 bits, in two stages with a register
// between them. round = 2^(shift - 1); with `double_round` and shift > 31 it is 2^30 more for value >= 0, less below.

module npuc_rescale (
    input  wire               clk,
    input  wire signed [33:0] value,
    input  wire signed [31:0] multiplier,
    input  wire [5:0]         shift,
    input  wire               double_round,
    output wire signed [33:0] result         // one cycle after the operands
);
    wire signed [63:0] half = 64'sd1 <<< (shift - 6'd1);
    wire signed [63:0] extra = !double_round || shift < 6'd32 ? 64'sd0 : value < 0 ? -(64'sd1 <<< 30) : 64'sd1 <<< 30;
    reg signed [63:0]  scaled;
    reg [5:0]          scaled_shift;

    always @(posedge clk) begin
        scaled <= value * multiplier + half + extra;
        scaled_shift <= shift;
    end

    wire signed [63:0] shifted = scaled >>> scaled_shift;
    assign result = shifted[33:0];
endmodule
