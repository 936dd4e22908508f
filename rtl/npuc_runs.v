// Steps through one side of a four-dimensional copy, an aligned word (or a byte) of a contiguous run a cycle.

module npuc_runs #(
    parameter UNIT = 8                       // bytes that a step moves at most
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        start,
    input  wire [29:0] base,
    input  wire [24:0] size_0,
    input  wire [16:0] size_1,
    input  wire [16:0] size_2,
    input  wire [16:0] size_3,
    input  wire [23:0] stride_1,
    input  wire [23:0] stride_2,
    input  wire [23:0] stride_3,
    input  wire        advance,
    output wire        busy,
    output wire [29:0] address,
    output wire [3:0]  n_bytes,
    output wire        last
);
    reg         running;
    reg [29:0]  run_1, run_2, run_3;         // where the run, its plane and its group begin
    reg [24:0]  done;
    reg [16:0]  index_1, index_2, index_3;

    wire [24:0] left = size_0 - done;
    wire [3:0]  room = UNIT == 1 ? 4'd1 : 4'd8 - {1'b0, address[2:0]};
    wire        ends_0 = left == {21'd0, n_bytes}, ends_1 = index_1 + 17'd1 == size_1;
    wire        ends_2 = index_2 + 17'd1 == size_2, ends_3 = index_3 + 17'd1 == size_3;
    assign address = run_1 + {5'd0, done};
    assign n_bytes = left < {21'd0, room} ? left[3:0] : room;
    assign last = ends_0 && ends_1 && ends_2 && ends_3;
    assign busy = running;

    always @(posedge clk) begin
        if (advance) begin
            running <= !last;
            done <= ends_0 ? 25'd0 : done + {21'd0, n_bytes};
            if (ends_0) begin
                index_1 <= ends_1 ? 17'd0 : index_1 + 17'd1;
                run_1 <= !ends_1 ? run_1 + {6'd0, stride_1} : !ends_2 ? run_2 + {6'd0, stride_2} : run_3 + {6'd0, stride_3};
                if (ends_1) begin
                    index_2 <= ends_2 ? 17'd0 : index_2 + 17'd1;
                    run_2 <= !ends_2 ? run_2 + {6'd0, stride_2} : run_3 + {6'd0, stride_3};
                    if (ends_2) {index_3, run_3} <= {index_3 + 17'd1, run_3 + {6'd0, stride_3}};
                end
            end
        end
        if (start) begin
            running <= 1'b1;
            {run_1, run_2, run_3} <= {base, base, base};
            {done, index_1, index_2, index_3} <= 0;
        end
        if (rst) running <= 1'b0;
    end
endmodule
