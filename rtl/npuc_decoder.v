// The weight decoder (docs/weight-codec.md): reads the stream of an instruction through a port of its own, once for
// each pass, and hands on eight weights a cycle, or what is left of the pass.
//
// The code table is parsed a token a cycle when all of it has come; then the states are filled in at eight a cycle. Passes
// follow each other without a gap: the first states of one are taken with the last weights of the one before.

`include "npuc_isa.vh"

module npuc_decoder #(
    parameter WORDS = 64                     // of the stream, under way and waiting
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          start,
    input  wire [29:0]   start_address,
    input  wire [15:0]   start_words,        // of the stream; 0: raw weights
    input  wire [31:0]   n_pass_weights,     // of a pass; steady from the first pass on
    input  wire          table_write,
    input  wire [63:0]   data,
    input  wire [3:0]    n_bytes,
    input  wire [2:0]    table_units,
    input  wire          pass,               // one more pass is wanted
    output wire          done,               // with all passes that are wanted
    output wire          request,
    output wire [26:0]   request_word,
    input  wire          grant,
    input  wire          response,
    input  wire [63:0]   response_data,
    input  wire          has_room,           // for eight more weights
    output wire          write,
    output reg  [63:0]   weights,
    output wire [3:0]    n_weights
);
    localparam PARSE = 2'd0, FILL = 2'd1, DECODE = 2'd2;

    reg [1:0]   mode;
    reg [26:0]  address;
    reg [15:0]  stream_words;
    reg [15:0]  passes_wanted, passes_done;

    // Code table -------------------------------------------------------------------------------------------------------

    reg [911:0] code;
    reg [6:0]   code_end;                    // bytes
    reg [9:0]   bit_at, slots;
    reg [7:0]   token, next_value;
    reg [4095:0] token_of;                   // by slot
    reg [7:0]   token_first[0:255];
    reg [2:0]   token_extra[0:255];
    reg [9:0]   token_number[0:255];         // of its next state

    wire [19:0] code_bits = code >> bit_at;
    reg [3:0]   prefix;
    integer     p;
    always @* begin
        prefix = 4'd0;
        for (p = 0; p < 8; p = p + 1) if (prefix == p && code_bits[3+p]) prefix = prefix + 4'd1;
    end
    wire [9:0]  tail = (code_bits >> (4'd4 + prefix)) & ((10'd1 << (prefix + 4'd2)) - 10'd1);
    wire [9:0]  frequency = (((10'd1 << prefix) - 10'd1) << 2) + tail;
    wire [2:0]  extra = code_bits[2:0];
    wire [7:0]  value = token == 8'd0 ? code[11:4] - 8'd128 : next_value;
    wire        parses = mode == PARSE && table_units != 3'd0 && code_end == {table_units, 4'd0};

    integer f;
    always @(posedge clk) begin
        if (table_write) begin
            code <= code | {848'd0, data & ~(64'hffffffffffffffff << {n_bytes, 3'd0})} << {code_end, 3'd0};
            code_end <= code_end + {3'd0, n_bytes};
        end
        if (parses) begin
            token <= token + 8'd1;
            next_value <= value + (8'd1 << extra);
            {token_first[token], token_extra[token]} <= {value, extra};
            slots <= slots + frequency;
            bit_at <= bit_at + 10'd6 + {5'd0, prefix, 1'b0};
            for (f = 0; f < 512; f = f + 1) if (f >= slots && f < slots + frequency) token_of[8*f+:8] <= token;
        end
        if (start || rst) begin
            {code, code_end, slots, token} <= 0;
            bit_at <= 10'd12;
        end
    end

    // States: 8 first value, 3 extra bits, 4 state bits, 9 following state.
    reg [23:0]  states[0:511];
    reg [5:0]   row;
    reg [7:0]   row_token[0:7];
    reg [9:0]   row_number[0:7];
    reg [3:0]   row_bits[0:7];
    reg [8:0]   row_slot;
    integer     i, j;
    always @* begin
        for (i = 0; i < 8; i = i + 1) begin
            row_slot = {row, 3'd0} * 9'd323 + i * 9'd323;
            row_token[i] = token_of[8*row_slot+:8];
            row_number[i] = token_number[row_token[i]];
            for (j = 0; j < i; j = j + 1) if (row_token[j] == row_token[i]) row_number[i] = row_number[i] + 10'd1;
            row_bits[i] = 4'd9;
            for (j = 1; j < 10; j = j + 1) if (row_number[i] >= 10'd1 << j) row_bits[i] = 4'd9 - j;
        end
    end
    integer k;
    always @(posedge clk) begin
        if (parses) token_number[token] <= frequency;
        if (mode == FILL) begin
            for (k = 0; k < 8; k = k + 1) begin
                states[{row, 3'd0} + k] <= {token_first[row_token[k]], token_extra[row_token[k]], row_bits[k],
                                            row_number[k][8:0] << row_bits[k]};
                token_number[row_token[k]] <= row_number[k] + 10'd1;
            end
            row <= row + 6'd1;
        end
        if (start || rst) row <= 6'd0;
    end

    // Stream: words on request, then a window of bits -------------------------------------------------------------------

    reg [63:0]  words[0:WORDS-1];
    reg [5:0]   head, tail_word;
    reg [6:0]   promised, waiting;
    reg [15:0]  requested_words, requested_passes;
    reg [255:0] window;
    reg [8:0]   window_bits;
    reg [5:0]   used;                        // bits of the word that the window begins in
    assign request = requested_passes != passes_wanted && promised < WORDS;
    assign request_word = address + {11'd0, requested_words};
    wire        fire = request && grant;

    reg         has_states;
    reg [31:0]  weights_left;
    reg [8:0]   state[0:7];
    wire [3:0]  lanes = weights_left < 32'd8 ? weights_left[3:0] : 4'd8;
    reg [23:0]  entry[0:7];
    reg [7:0]   length, decoded[0:7];
    reg [8:0]   following[0:7];
    reg [15:0]  field;
    reg [3:0]   n_state;
    integer     m;
    always @* begin
        length = 8'd0;
        weights = 64'd0;
        for (m = 0; m < 8; m = m + 1) begin
            entry[m] = states[state[m]];
            n_state = weights_left > 32'd8 + m ? entry[m][12:9] : 4'd0;
            field = window >> length;
            weights[8*m+:8] = entry[m][23:16] + (field[7:0] & ~(8'hff << entry[m][15:13]));
            following[m] = entry[m][8:0] + ((field >> entry[m][15:13]) & ~(9'h1ff << n_state));
            if (m < lanes) length = length + {5'd0, entry[m][15:13]} + {4'd0, n_state};
        end
    end
    wire        more = passes_done != passes_wanted;
    wire [8:0]  state_bits = 9'd9 * (n_pass_weights < 32'd8 ? n_pass_weights[3:0] : 4'd8);
    wire        is_filled = mode == DECODE || (mode == FILL && row == 6'd63);
    wire        takes_first = is_filled && more && !has_states && window_bits >= state_bits;
    assign write = mode == DECODE && more && has_states && has_room && window_bits >= {1'b0, length};
    assign n_weights = lanes;
    assign done = !more;
    // A pass ends at the end of a word; the states of the next one follow.
    wire        ends = write && weights_left <= 32'd8;
    wire [5:0]  used_after = used + length[5:0];
    wire [8:0]  consumed = !write ? 9'd0 : {1'b0, length} + (ends && used_after != 6'd0 ? 9'd64 - {3'd0, used_after} : 9'd0);
    wire        takes_next = ends && passes_done + 16'd1 != passes_wanted && window_bits >= consumed + state_bits;
    wire        take_states = takes_first || takes_next;
    wire [8:0]  removed = consumed + (take_states ? state_bits : 9'd0);
    wire [255:0] first_states = window >> consumed;
    wire [8:0]  kept = window_bits - removed;
    wire        is_present = response || waiting != 7'd0;
    wire        refill = is_present && kept <= 9'd192;
    wire [63:0] next_word = waiting != 7'd0 ? words[head] : response_data;

    integer     s;
    always @(posedge clk) begin
        case (mode)
            PARSE: if (parses && slots + frequency == 10'd512) mode <= FILL;
            FILL: if (row == 6'd63) mode <= DECODE;
            default: ;
        endcase
        passes_wanted <= passes_wanted + {15'd0, pass};
        passes_done <= passes_done + {15'd0, ends};
        if (fire) begin
            requested_words <= requested_words + 16'd1 == stream_words ? 16'd0 : requested_words + 16'd1;
            if (requested_words + 16'd1 == stream_words) requested_passes <= requested_passes + 16'd1;
        end
        if (response) begin
            words[tail_word] <= response_data;
            tail_word <= tail_word + 6'd1;
        end
        if (refill) head <= head + 6'd1;
        promised <= promised + {6'd0, fire} - {6'd0, refill};
        waiting <= waiting + {6'd0, response} - {6'd0, refill};
        window <= (window >> removed) | (refill ? {192'd0, next_word} << kept : 256'd0);
        window_bits <= kept + (refill ? 9'd64 : 9'd0);
        used <= take_states ? state_bits[5:0] : ends ? 6'd0 : write ? used_after : used;
        has_states <= take_states || (has_states && !ends);
        weights_left <= ends || mode != DECODE ? n_pass_weights : write ? weights_left - 32'd8 : weights_left;
        for (s = 0; s < 8; s = s + 1) begin
            if (take_states) state[s] <= first_states >> 9 * s;
            else if (write) state[s] <= following[s];
        end
        if (start) begin
            mode <= PARSE;
            {address, stream_words} <= {start_address[29:3], start_words};
            {passes_wanted, passes_done, requested_passes, requested_words} <= 0;
        end
        if (rst) begin
            {mode, passes_wanted, passes_done, requested_passes, requested_words, has_states} <= 0;
            {head, tail_word, promised, waiting, window, window_bits, used} <= 0;
        end
    end
endmodule
