// The bench around the core: SRAM, flash, and the fetcher of instructions, as docs/timing.md describes it.
//
// Reads jobs from standard input and writes results to standard output, both little-endian int32 and raw bytes:
//   job     n_instructions, sram_bytes, flash_bytes, max_cycles,
//           n_instructions x {queue, stream_end, descriptor_bytes, instruction[32], descriptor[128]}, sram, flash
//   result  total_cycles (-1: not done after max_cycles), words read, words written,
//           n_instructions x {start, issue_end, retire}, sram

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vnpuc_core.h"
#include "verilated.h"

namespace {

constexpr int kQueues = 3, kFetchQueue = 5, kQueueDepth = 16;
constexpr int kSramLatency = 32, kFlashLatency = 64, kDispatch = 4, kPrefetch = 256;

struct Instruction {
    int32_t queue, stream_end, descriptor_bytes;
    uint8_t code[32], descriptor[128];
};

// A wait issues nothing: it ends when it retires.
bool is_wait(const Instruction &instruction) { return (instruction.code[0] & 0x7c) == 0x08; }

struct Times {
    int32_t start = -1, issue_end = -1, retire = -1;
};

struct Job {
    std::vector<Instruction> program;
    std::vector<uint8_t> sram, flash;
    int32_t max_cycles = 0;
};

bool read_exactly(void *place, size_t n) { return n == 0 || fread(place, n, 1, stdin) == 1; }

bool read_job(Job &job) {
    int32_t head[4];
    if (!read_exactly(head, sizeof head)) return false;
    job.program.resize(head[0]);
    job.sram.resize(head[1]);
    job.flash.resize(head[2]);
    job.max_cycles = head[3];
    return read_exactly(job.program.data(), job.program.size() * sizeof(Instruction)) &&
           read_exactly(job.sram.data(), job.sram.size()) && read_exactly(job.flash.data(), job.flash.size());
}

// Reads the stream at one byte a cycle, dispatches, loads descriptors, and holds an instruction whose queue is full.
class Fetcher {
  public:
    explicit Fetcher(const std::vector<Instruction> &program) : program_(program) {}

    bool wants_byte() const {
        if (mode_ == kDescriptorRead) return descriptor_left_ > 0;
        if (mode_ == kBoot || mode_ == kDone) return false;
        const int end = current().stream_end;
        const int total = program_.back().stream_end;
        return read_ < end || read_ < std::min(total, consumed_ + kPrefetch);
    }
    void take_byte() { mode_ == kDescriptorRead ? --descriptor_left_ : ++read_; }
    bool is_done() const { return mode_ == kDone; }
    size_t position() const { return position_; }
    const Instruction &current() const { return program_[position_]; }

    // What happens at the instant `now`; true when an instruction goes into its queue: one at most, as dispatch takes time.
    bool settle(int now, const bool *has_room) {
        bool pushes = false;
        while (mode_ != kDone) {
            const Instruction &instruction = current();
            if (mode_ == kPush) {
                const bool is_fetch = instruction.queue == kFetchQueue;
                if (!is_fetch && !has_room[instruction.queue]) return pushes;
                if (!is_fetch) pushed_ = position_;
                ++position_;
                consumed_ = instruction.stream_end;
                mode_ = position_ < program_.size() ? kBytes : kDone;
                pushes = pushes || !is_fetch;
            } else if (mode_ == kBytes) {
                if (read_ < instruction.stream_end) return pushes;
                mode_ = kDispatching;
                timer_ = now + kDispatch;
            } else if (mode_ == kDescriptorRead) {
                if (descriptor_left_ > 0) return pushes;
                mode_ = kPush;
            } else if (timer_ > now) {
                return pushes;
            } else if (mode_ == kBoot) {
                mode_ = kBytes;
            } else if (mode_ == kDescriptorLatency) {
                mode_ = kDescriptorRead;
                descriptor_left_ = instruction.descriptor_bytes;
            } else if (instruction.descriptor_bytes > 0) {
                mode_ = kDescriptorLatency;
                timer_ = now + kFlashLatency;
            } else {
                mode_ = kPush;
            }
        }
        return pushes;
    }
    size_t pushed() const { return pushed_; }

  private:
    enum Mode { kBoot, kBytes, kDispatching, kDescriptorLatency, kDescriptorRead, kPush, kDone };
    const std::vector<Instruction> &program_;
    Mode mode_ = kBoot;
    size_t position_ = 0, pushed_ = 0;
    int timer_ = kFlashLatency, read_ = 0, consumed_ = 0, descriptor_left_ = 0;
};

class Bench {
  public:
    explicit Bench(Job &job) : job_(job), fetcher_(job.program), times_(job.program.size()) {
        core_.reset(new Vnpuc_core(&context_));
        core_->rst = 1;
        tick();
        tick();
        core_->rst = 0;
        for (size_t i = 0; i < job.program.size(); ++i)
            if (job.program[i].queue < kQueues) order_[job.program[i].queue].push_back(i);
    }

    int run() {
        for (now_ = 0; now_ < job_.max_cycles; ++now_) {
            if (fetcher_.is_done() && all_retired()) return now_;
            cycle();
        }
        return -1;
    }
    const std::vector<Times> &times() const { return times_; }
    int32_t words_read() const { return words_read_; }
    int32_t words_written() const { return words_written_; }

  private:
    struct Pending {
        int due;
        uint64_t data;
    };

    void tick() {
        core_->clk = 0;
        core_->eval();
        core_->clk = 1;
        core_->eval();
    }
    bool all_retired() const {
        for (int q = 0; q < kQueues; ++q)
            if (retired_[q] < order_[q].size()) return false;
        return true;
    }

    static bool take(std::deque<Pending> &queue, int now, uint64_t &data) {
        if (queue.empty() || queue.front().due > now) return false;
        data = queue.front().data;
        queue.pop_front();
        return true;
    }

    void cycle() {
        uint64_t data = 0;
        core_->clk = 0;
        core_->push = 0;
        core_->flash_grant = 0;
        core_->sram_response = take(sram_reads_, now_, data);
        core_->sram_response_data = data;
        core_->flash_response = take(flash_reads_, now_, data);
        core_->flash_data = static_cast<uint8_t>(data);
        core_->eval();
        share_flash();
        core_->eval();
        access_sram();
        record_events();
        push_instruction();
        core_->eval();
        core_->clk = 1;
        core_->eval();
    }

    // One byte a cycle; when both want it, they take turns.
    void share_flash() {
        const bool dma = core_->flash_request, stream = fetcher_.wants_byte();
        if (dma && (!stream || stream_had_last_)) {
            core_->flash_grant = 1;
            flash_reads_.push_back({now_ + kFlashLatency, job_.flash.at(core_->flash_address)});
            stream_had_last_ = false;
        } else if (stream) {
            fetcher_.take_byte();
            stream_had_last_ = true;
        }
    }

    void access_sram() {
        words_read_ += core_->sram_read;
        words_written_ += core_->sram_write;
        if (core_->sram_read) {
            uint64_t word = 0;
            const size_t at = size_t{8} * core_->sram_read_word;
            if (at + 8 > job_.sram.size()) fail("reads outside sram", at);
            memcpy(&word, &job_.sram[at], 8);
            sram_reads_.push_back({now_ + kSramLatency, word});
        }
        if (core_->sram_write) {
            const size_t at = size_t{8} * core_->sram_write_word;
            if (at + 8 > job_.sram.size()) fail("writes outside sram", at);
            for (int i = 0; i < 8; ++i)
                if (core_->sram_write_lanes >> i & 1) job_.sram[at + i] = core_->sram_write_data >> 8 * i & 255;
        }
    }

    [[noreturn]] void fail(const char *what, size_t at) const {
        fprintf(stderr, "cycle %d: the core %s at %#zx\n", now_, what, at);
        exit(1);
    }

    void record_events() {
        for (int q = 0; q < kQueues; ++q) {
            if (core_->issue_end >> q & 1) times_[order_[q][issued_[q]++]].issue_end = now_;
            if (core_->start >> q & 1) times_[order_[q][started_[q]++]].start = now_;
            if (core_->retire >> q & 1) {
                const size_t index = order_[q][retired_[q]++];
                times_[index].retire = now_ + 1;
                if (is_wait(job_.program[index])) times_[order_[q][issued_[q]++]].issue_end = now_ + 1;
            }
        }
    }

    void push_instruction() {
        bool has_room[kQueues];
        for (int q = 0; q < kQueues; ++q) has_room[q] = in_queue_[q] - started_[q] < kQueueDepth;
        if (!fetcher_.settle(now_ + 1, has_room)) return;
        const Instruction &instruction = job_.program[fetcher_.pushed()];
        in_queue_[instruction.queue]++;
        core_->push = 1;
        core_->push_queue = instruction.queue;
        memcpy(core_->push_instruction.data(), instruction.code, sizeof instruction.code);
        memcpy(core_->push_descriptor.data(), instruction.descriptor, sizeof instruction.descriptor);
    }

    Job &job_;
    VerilatedContext context_;
    std::unique_ptr<Vnpuc_core> core_;
    Fetcher fetcher_;
    std::vector<Times> times_;
    std::vector<size_t> order_[kQueues];
    std::deque<Pending> sram_reads_, flash_reads_;
    size_t started_[kQueues] = {}, issued_[kQueues] = {}, retired_[kQueues] = {}, in_queue_[kQueues] = {};
    int32_t words_read_ = 0, words_written_ = 0;
    int now_ = 0;
    bool stream_had_last_ = false;
};

}  // namespace

int main() {
    Job job;
    while (read_job(job)) {
        Bench bench(job);
        const int32_t total = bench.run();
        const int32_t head[3] = {total, bench.words_read(), bench.words_written()};
        fwrite(head, sizeof head, 1, stdout);
        fwrite(bench.times().data(), sizeof(Times), bench.times().size(), stdout);
        fwrite(job.sram.data(), job.sram.size(), 1, stdout);
    }
    return 0;
}
