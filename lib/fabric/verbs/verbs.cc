// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/verbs.h"

#include "lib/fabric/verbs/devices.h"
#include "lib/fabric/verbs/poller.h"
#include "lib/fabric/verbs/region.h"

namespace wss::fabric::verbs {

class VerbsFabric final : public Fabric {
  public:
    explicit VerbsFabric(std::shared_ptr<Devices> devices) : devices_(std::move(devices)) {}
    ~VerbsFabric() override { devices_->release_all(); }

    const Caps& caps() const noexcept override { return devices_->caps(); }
    Result<std::unique_ptr<Poller>> create_poller() override {
        Result<std::unique_ptr<VerbsPoller>> poller = VerbsPoller::create(devices_);
        if (!poller) return poller.status();
        return std::unique_ptr<Poller>(std::move(*poller));
    }
    Result<std::unique_ptr<Region>> allocate(size_t bytes, Access access) override {
        return verbs::allocate(devices_, bytes, access);
    }
    Result<std::unique_ptr<Region>> register_memory(std::span<std::byte> memory, Access access) override {
        return verbs::register_memory(devices_, memory, access);
    }

  private:
    std::shared_ptr<Devices> devices_;
};

Result<std::unique_ptr<Fabric>> open(const Address& address) {
    auto devices = Devices::open(address);
    if (!devices) return devices.status();
    return std::unique_ptr<Fabric>(std::make_unique<VerbsFabric>(std::move(*devices)));
}

}  // namespace wss::fabric::verbs
