// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/shm.h"

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/shm_poller.h"
#include "lib/fabric/stream/engine.h"
#include "lib/fabric/stream/memory.h"

namespace wss::fabric::shm {

namespace {

// A sleeping poller gets a hang-up at once, a busy one within some turns.
constexpr uint32_t kDeadPeerMs = 100;

class ShmFabric final : public Fabric {
  public:
    explicit ShmFabric(std::shared_ptr<Domain> domain) : domain_(std::move(domain)) {}

    const Caps& caps() const noexcept override { return caps_; }
    Result<std::unique_ptr<Poller>> create_poller() override {
        Result<std::unique_ptr<ShmPoller>> poller = ShmPoller::create(domain_);
        if (!poller) return poller.status();
        return std::unique_ptr<Poller>(std::move(*poller));
    }
    Result<std::unique_ptr<Region>> allocate(size_t bytes, Access access) override {
        size_t whole = stream::whole_pages(bytes);
        if (whole == 0) return failure(Code::kInvalid, "cannot allocate a region of {} bytes", bytes);
        Result<SharedMemory> memory = make_shared("wss-region", whole, access == Access::kRemoteRead);
        if (!memory) return memory.status();
        return std::unique_ptr<Region>(
            std::make_unique<SharedRegion>(domain_, std::move(*memory), bytes, access));
    }
    Result<std::unique_ptr<Region>> register_memory(std::span<std::byte> memory, Access access) override {
        return stream::register_memory(domain_->table(), memory, access);
    }

  private:
    const Caps caps_ = stream::caps("shm", kDeadPeerMs);
    const std::shared_ptr<Domain> domain_;
};

}  // namespace

Result<std::unique_ptr<Fabric>> open() {
    Result<std::shared_ptr<Domain>> domain = Domain::create();
    if (!domain) return domain.status();
    return std::unique_ptr<Fabric>(std::make_unique<ShmFabric>(std::move(*domain)));
}

}  // namespace wss::fabric::shm
