// SPDX-License-Identifier: Apache-2.0
#include "lib/io/sim/sim_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace wss::io {

using Finished = std::shared_ptr<std::vector<Request*>>;

class SimQueue final : public Queue {
  public:
    explicit SimQueue(SimDisk& disk) : disk_(disk) {}

    void submit(Request& request) noexcept override {
        ++in_flight_;
        disk_.start(request, finished_);
    }
    size_t in_flight() const noexcept override { return in_flight_; }
    size_t poll() noexcept override {
        std::vector<Request*> finished;
        finished.swap(*finished_);
        for (Request* request : finished) {
            --in_flight_;
            request->done(*request);
        }
        return finished.size();
    }
    bool arm() noexcept override { return finished_->empty(); }

  private:
    SimDisk& disk_;
    Finished finished_ = std::make_shared<std::vector<Request*>>();
    size_t in_flight_ = 0;
};

class SimBackend final : public Backend {
  public:
    explicit SimBackend(SimDisk& disk) : disk_(disk) {}
    Limits limits() const noexcept override {
        return {.size = disk_.size_,
                .logical_block = SimDisk::kSector,
                .physical_block = SimDisk::kSector,
                .discard = true,
                .volatile_cache = !disk_.stable_};
    }
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor&) override {
        return std::unique_ptr<Queue>(std::make_unique<SimQueue>(disk_));
    }
    Status resize(uint64_t) override { return Status(Code::kUnsupported, "a simulated disk keeps its size"); }
    bool lost() const noexcept override { return disk_.taken_; }
    bool suspended() const noexcept override { return disk_.suspended_; }
    std::string ownership() const override {
        return disk_.owners_ == 0 ? "" : fmt::format("{} {}", disk_.number_, disk_.owners_);
    }
    Succession succession() const noexcept override { return disk_.succession_; }
    std::string describe() const override { return "sim"; }

  private:
    SimDisk& disk_;
};

SimDisk::~SimDisk() = default;

std::unique_ptr<Backend> SimDisk::open(sim::Node&) {
    return std::make_unique<SimBackend>(*this);
}

void SimDisk::start(Request& request, const Finished& finished) {
    uint64_t id = next_flight_++;
    // A read returns the data at some time while it is in flight: at its beginning or at its end.
    const bool early = request.op == Op::kRead && world_.random().below(2) == 0;
    if (early && is_within(request)) read(request);
    const bool silent = request.op == Op::kWrite && request.offset >= faults_.silent_first &&
                        request.offset < faults_.silent_end;
    flights_.emplace(id, Flight{&request, writes_, finished, early, silent});
    int64_t spread = faults_.latency_max.count - faults_.latency_min.count;
    Nanoseconds latency{faults_.latency_min.count +
                        static_cast<int64_t>(world_.random().below(static_cast<uint64_t>(spread) + 1))};
    if (world_.fault("disk.slow", faults_.slow_one_in)) latency = faults_.slow;
    if (silent) latency = faults_.silent;
    world_.schedule_in(latency, [this, id] { finish(id); });
}

void SimDisk::finish(uint64_t id) {
    auto found = flights_.find(id);
    if (found == flights_.end()) return;  // power was lost meanwhile
    Flight flight = found->second;
    flights_.erase(found);
    Request& request = *flight.request;
    request.error = perform(flight);
    request.done_bytes = request.error == 0 ? request.length : 0;
    world_.note(id << 4 | static_cast<uint64_t>(request.op));
    if (auto finished = flight.finished.lock()) finished->push_back(&request);
}

bool SimDisk::is_within(const Request& request) const {
    return request.offset <= size_ && request.length <= size_ - request.offset;
}

int SimDisk::perform(const Flight& flight) {
    Request& request = *flight.request;
    if (taken_) return ESHUTDOWN;
    if (flight.silent) return ETIMEDOUT;
    if (refusing_) return EIO;
    if (full_ && request.op == Op::kWrite) return ENOSPC;
    if (request.op != Op::kFlush) {
        if (request.offset % kSector != 0 || request.length % kSector != 0) return EINVAL;
        if (!is_within(request)) return request.op == Op::kRead ? EIO : EFBIG;
    }
    bool fails = world_.fault("disk.error", faults_.error_one_in);
    switch (request.op) {
        case Op::kRead:
            if (!fails && !flight.early) read(request);
            break;
        case Op::kFlush:
            if (!fails) flush(flight.submitted);
            break;
        default: {
            uint64_t sectors = request.length / kSector;
            write(request, fails ? world_.random().below(sectors + 1) : sectors);
        }
    }
    return fails ? EIO : 0;
}

void SimDisk::read(Request& request) {
    for (uint64_t at = 0; at < request.length; at += kSector) {
        auto sector = sectors_.find((request.offset + at) / kSector);
        if (sector == sectors_.end())
            std::memset(request.data + at, 0, kSector);
        else
            std::memcpy(request.data + at, sector->second.current().data(), kSector);
    }
}

void SimDisk::write(const Request& request, uint64_t sectors) {
    uint64_t order = ++writes_;
    for (uint64_t i = 0; i < sectors; ++i) {
        Bytes bytes{};  // discarded and zeroed sectors read zero
        if (request.op == Op::kWrite) std::memcpy(bytes.data(), request.data + i * kSector, kSector);
        Sector& sector = sectors_[request.offset / kSector + i];
        if (request.fua || stable_) {
            sector.pending.clear();
            sector.stable = bytes;
        } else {
            sector.pending.push_back({order, bytes});
        }
    }
}

void SimDisk::flush(uint64_t up_to) {
    for (auto& [number, sector] : sectors_) {
        auto later = std::find_if(sector.pending.begin(), sector.pending.end(),
                                  [&](auto& v) { return v.order > up_to; });
        if (later == sector.pending.begin()) continue;
        sector.stable = std::prev(later)->bytes;
        sector.pending.erase(sector.pending.begin(), later);
    }
}

void SimDisk::crash() {
    for (auto& [id, flight] : flights_) {
        const Request& request = *flight.request;
        bool writes = request.op != Op::kRead && request.op != Op::kFlush && request.length <= size_ &&
                      request.offset <= size_ - request.length;
        if (writes) write(request, world_.random().below(request.length / kSector + 1));
    }
    flights_.clear();
    for (auto& [number, sector] : sectors_) {
        size_t kept = world_.random().below(sector.pending.size() + 1);
        if (kept > 0) sector.stable = sector.pending[kept - 1].bytes;
        sector.pending.clear();
    }
}

}  // namespace wss::io
