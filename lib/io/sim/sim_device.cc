// SPDX-License-Identifier: Apache-2.0
#include "lib/io/sim/sim_device.h"

#include <cerrno>

namespace wss::io {

using Finished = std::shared_ptr<std::vector<Request*>>;

class SimQueue final : public Queue {
  public:
    explicit SimQueue(SimDevice& device) : device_(device) {}

    void submit(Request& request) noexcept override {
        ++in_flight_;
        device_.start(request, finished_);
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
    SimDevice& device_;
    Finished finished_ = std::make_shared<std::vector<Request*>>();
    size_t in_flight_ = 0;
};

class SimBackend final : public Backend {
  public:
    explicit SimBackend(SimDevice& device) : device_(device) {}
    Limits limits() const noexcept override {
        return {.size = device_.contents().size(),
                .logical_block = SimDevice::kSector,
                .physical_block = SimDevice::kSector,
                .discard = true,
                .volatile_cache = device_.contents().is_volatile()};
    }
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor&) override {
        return std::unique_ptr<Queue>(std::make_unique<SimQueue>(device_));
    }
    Status resize(uint64_t) override { return Status(Code::kUnsupported, "a simulated disk keeps its size"); }
    std::string trouble() const override { return device_.trouble(); }
    bool lost() const noexcept override { return device_.lost(); }
    bool suspended() const noexcept override { return device_.suspended(); }
    std::string ownership() const override { return device_.ownership(); }
    Succession succession() const noexcept override { return device_.succession(); }
    std::string describe() const override { return "sim"; }

  private:
    SimDevice& device_;
};

SimDevice::~SimDevice() = default;

std::unique_ptr<Backend> SimDevice::open(sim::Node&) {
    return std::make_unique<SimBackend>(*this);
}

void SimDevice::start(Request& request, const Finished& finished) {
    submitted();
    const uint64_t id = next_flight_++;
    // A read returns the data at some time while it is in flight: at its beginning or at its end.
    const bool early = request.op == Op::kRead && world_.random().below(2) == 0 && answers();
    if (early && contents_->has(request)) read(request);
    const bool silent = request.op == Op::kWrite && request.offset >= faults_.silent_first &&
                        request.offset < faults_.silent_end;
    flights_.emplace(id, Flight{&request, contents_->writes(), finished, early, silent});
    const int64_t spread = faults_.latency_max.count - faults_.latency_min.count;
    Nanoseconds latency{faults_.latency_min.count +
                        static_cast<int64_t>(world_.random().below(static_cast<uint64_t>(spread) + 1))};
    if (world_.fault("disk.slow", faults_.slow_one_in)) latency = faults_.slow;
    if (silent) latency = faults_.silent;
    world_.schedule_in(latency, [this, id] { finish(id); });
}

void SimDevice::finish(uint64_t id) {
    auto found = flights_.find(id);
    if (found == flights_.end() || !answers()) return;
    Flight flight = found->second;
    flights_.erase(found);
    Request& request = *flight.request;
    request.error = perform(flight);
    request.done_bytes = request.error == 0 ? request.length : 0;
    world_.note(id << 4 | static_cast<uint64_t>(request.op));
    if (auto finished = flight.finished.lock()) finished->push_back(&request);
}

int SimDevice::perform(const Flight& flight) {
    Request& request = *flight.request;
    if (const int error = refusal(flight); error != 0) return error;
    if (request.op != Op::kFlush) {
        if (request.offset % kSector != 0 || request.length % kSector != 0) return EINVAL;
        if (!contents_->has(request)) return request.op == Op::kRead ? EIO : EFBIG;
    }
    const bool fails = world_.fault("disk.error", faults_.error_one_in);
    switch (request.op) {
        case Op::kRead:
            if (!fails && !flight.early) read(request);
            break;
        case Op::kFlush:
            if (!fails) contents_->flush(flight.submitted);
            break;
        default: {
            const uint64_t sectors = request.length / kSector;
            contents_->change(request, fails ? world_.random().below(sectors + 1) : sectors);
        }
    }
    return fails ? EIO : 0;
}

void SimDevice::read(Request& request) const {
    contents_->read(request.offset, {request.data, request.length});
}

void SimDevice::resume() {
    for (const auto& [id, flight] : flights_) {
        const auto soon = from_us(static_cast<int64_t>(world_.random().below(2000)));
        world_.schedule_in(soon, [this, number = id] { finish(number); });
    }
}

void SimDevice::break_off() {
    for (const auto& [id, flight] : flights_) {
        const Request& request = *flight.request;
        const bool changes = request.op != Op::kRead && request.op != Op::kFlush && contents_->has(request);
        if (changes) contents_->change(request, world_.random().below(request.length / kSector + 1));
    }
    flights_.clear();
}

void SimDevice::drop_some(uint32_t one_in) {
    std::erase_if(flights_, [&](const auto&) { return world_.random().chance(one_in); });
}

}  // namespace wss::io
