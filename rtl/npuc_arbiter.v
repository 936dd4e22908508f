// Shares one port among requesters, a grant a cycle, in turns: a requester that has just had it comes last.

module npuc_arbiter #(
    parameter N = 2
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [N-1:0] request,
    output reg  [N-1:0] grant
);
    reg [$clog2(N):0] last;
    integer           i;
    integer           place;

    always @* begin
        grant = 0;
        for (i = N; i > 0; i = i - 1) begin
            place = (last + i) % N;
            if (request[place]) grant = 1 << place;
        end
    end

    integer j;
    always @(posedge clk) begin
        for (j = 0; j < N; j = j + 1) if (grant[j]) last <= j;
        if (rst) last <= 0;
    end
endmodule
