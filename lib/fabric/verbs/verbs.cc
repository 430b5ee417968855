// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/verbs.h"

#include "lib/fabric/verbs/device.h"
#include "lib/fabric/verbs/poller.h"
#include "lib/fabric/verbs/region.h"

namespace wss::fabric::verbs {

class VerbsFabric final : public Fabric {
  public:
    explicit VerbsFabric(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    const Caps& caps() const noexcept override { return device_->caps(); }
    Result<std::unique_ptr<Poller>> create_poller() override {
        Result<std::unique_ptr<VerbsPoller>> poller = VerbsPoller::create(device_);
        if (!poller) return poller.status();
        return std::unique_ptr<Poller>(std::move(*poller));
    }
    Result<std::unique_ptr<Region>> allocate(size_t bytes, Access access) override {
        return verbs::allocate(device_, bytes, access);
    }
    Result<std::unique_ptr<Region>> register_memory(std::span<std::byte> memory, Access access) override {
        return verbs::register_memory(device_, memory, access);
    }

  private:
    std::shared_ptr<Device> device_;
};

Result<std::unique_ptr<Fabric>> open(const Address& address) {
    Result<std::shared_ptr<Device>> device = Device::open(address);
    if (!device) return device.status();
    return std::unique_ptr<Fabric>(std::make_unique<VerbsFabric>(std::move(*device)));
}

}  // namespace wss::fabric::verbs
