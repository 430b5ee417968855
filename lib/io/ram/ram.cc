// SPDX-License-Identifier: Apache-2.0
#include "lib/io/ram/ram.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "lib/base/machine.h"
#include "lib/base/size.h"
#include "lib/io/request.h"

namespace wss::io {

namespace {

constexpr uint32_t kBlock = 512;
constexpr uint64_t kHugePage = 2 << 20;
// Address space for growth. It takes no memory until it is used.
constexpr uint64_t kReserve = uint64_t{1} << 40;
// Limits of one turn, ~1 ms of memory bandwidth, because other sources wait meanwhile.
constexpr uint64_t kBytesPerTurn = 4 << 20;
constexpr size_t kRequestsPerTurn = 256;

uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

class RamQueue final : public Queue {
  public:
    explicit RamQueue(RamBackend& backend) : backend_(backend) {}
    ~RamQueue() override {
        WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
    }

    void submit(Request& request) noexcept override {
        request.done_bytes = 0;
        waiting_.push_back(request);
        ++in_flight_;
    }

    size_t poll() noexcept override {
        uint64_t budget = kBytesPerTurn;
        size_t events = 0;
        // Handles only the requests that wait now. Those that done() submits are for the next turn.
        for (size_t count = std::min(in_flight_, kRequestsPerTurn); count > 0 && budget > 0; --count) {
            Request& request = *waiting_.front();
            ++events;
            if (!advance(request, budget)) break;
        }
        return events;
    }

    bool arm() noexcept override { return in_flight_ == 0; }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    // Continues `request` within `budget`. Returns false if the request is not yet finished.
    bool advance(Request& request, uint64_t& budget) noexcept {
        int error = refusal(request, backend_.size(), kBlock, false);
        if (error == 0 && request.op != Op::kFlush) {
            uint64_t chunk = std::min(budget, request.length - request.done_bytes);
            move(request, chunk);
            budget -= chunk;
            request.done_bytes += chunk;
            if (request.done_bytes < request.length) return false;
        }
        request.unlink();
        --in_flight_;
        finish(request, error, request.done_bytes);
        return true;
    }

    void move(Request& request, uint64_t chunk) noexcept {
        if (chunk == 0) return;
        std::byte* place = backend_.memory().data() + request.offset + request.done_bytes;
        if (request.op == Op::kRead)
            std::memcpy(request.data + request.done_bytes, place, chunk);
        else if (request.op == Op::kWrite)
            std::memcpy(place, request.data + request.done_bytes, chunk);
        else
            std::memset(place, 0, chunk);
    }

    RamBackend& backend_;
    List<Request> waiting_;
    size_t in_flight_ = 0;
};

}  // namespace

RamBackend::RamBackend(std::byte* mapping, size_t mapping_bytes)
    : mapping_(mapping),
      mapping_bytes_(mapping_bytes),
      base_(reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(mapping), kHugePage))),
      reserved_(mapping_bytes - kHugePage) {}

RamBackend::~RamBackend() {
    munmap(mapping_, mapping_bytes_);
}

static Status check_size(uint64_t bytes) {
    if (bytes == 0 || bytes % kBlock != 0)
        return failure(Code::kInvalid, "ram:{}: the size must be a multiple of {} and not 0", bytes, kBlock);
    if (bytes > physical_memory())
        return failure(Code::kExhausted, "ram:{}: larger than this machine's memory ({})", format_size(bytes),
                       readable_size(physical_memory()));
    return Status::ok();
}

Result<std::unique_ptr<Backend>> RamBackend::create(uint64_t bytes) {
    WSS_TRY(check_size(bytes));
    // If address space is scarce (ulimit -v, sanitizers), reserve less: the volume works, but cannot grow as
    // far.
    for (uint64_t reserve : {kReserve, kReserve / 16, kReserve / 256, uint64_t{0}}) {
        reserve = std::max(reserve, round_up(bytes, kHugePage));
        size_t mapping_bytes = reserve + kHugePage;
        void* mapping =
            mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED) continue;
        std::unique_ptr<RamBackend> backend(new RamBackend(static_cast<std::byte*>(mapping), mapping_bytes));
        WSS_TRY(backend->resize(bytes));
        return std::unique_ptr<Backend>(std::move(backend));
    }
    return Status::from_errno(errno, fmt::format("ram:{}: no address space (ulimit -v)", format_size(bytes)));
}

Status RamBackend::open_up(uint64_t bytes) {
    uint64_t wanted = round_up(bytes, kHugePage);
    if (wanted <= accessible_) return Status::ok();
    std::byte* start = base_ + accessible_;
    if (mprotect(start, wanted - accessible_, PROT_READ | PROT_WRITE) != 0)
        return Status::from_errno(errno, fmt::format("ram: cannot grow to {}", format_size(bytes)));
    // Advisory: fewer page faults and TLB misses. A kernel without huge pages rejects it, without harm.
    (void)madvise(start, wanted - accessible_, MADV_HUGEPAGE);
    (void)madvise(start, wanted - accessible_, MADV_DONTDUMP);
    accessible_ = wanted;
    return Status::ok();
}

Status RamBackend::resize(uint64_t bytes) {
    WSS_TRY(check_size(bytes));
    if (bytes > reserved_)
        return failure(Code::kExhausted, "ram: this volume cannot grow beyond {}", readable_size(reserved_));
    uint64_t was_accessible = accessible_;
    WSS_TRY(open_up(bytes));
    uint64_t old_size = size();
    // Data beyond an earlier, smaller end must read as zeroes. Fresh pages are already zero.
    if (bytes > old_size && was_accessible > old_size)
        std::memset(base_ + old_size, 0, std::min(bytes, was_accessible) - old_size);
    size_.store(bytes, std::memory_order_release);
    return Status::ok();
}

Limits RamBackend::limits() const noexcept {
    return {.size = size(),
            .logical_block = kBlock,
            .physical_block = 4096,
            .discard = true,
            .volatile_cache = false,
            .rotational = false};
}

Result<std::unique_ptr<Queue>> RamBackend::open_queue(reactor::Reactor&) {
    return std::unique_ptr<Queue>(std::make_unique<RamQueue>(*this));
}

std::string RamBackend::describe() const {
    return "ram:" + format_size(size());
}

}  // namespace wss::io
