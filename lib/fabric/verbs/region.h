// SPDX-License-Identifier: Apache-2.0
// Region: memory pinned and registered with every device of the fabric.
//
// Thread-safety: regions may be created and destroyed on any thread. Destroying waits for the devices. No
// remote access succeeds afterwards.
#pragma once

#include <memory>
#include <utility>

#include "lib/fabric/fabric.h"
#include "lib/fabric/verbs/devices.h"

namespace wss::fabric::verbs {

// Pages that a region owns, or none (the caller's memory).
class Mapping {
  public:
    Mapping() = default;
    explicit Mapping(std::span<std::byte> pages) : pages_(pages) {}
    Mapping(Mapping&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping();
    std::span<std::byte> pages() const { return pages_; }

  private:
    std::span<std::byte> pages_;
};

class VerbsRegion final : public Region {
  public:
    static Result<std::unique_ptr<Region>> create(std::shared_ptr<Devices> devices,
                                                  std::span<std::byte> memory, Mapping mapping,
                                                  Access access);
    ~VerbsRegion() override;

    // --- for Devices ---
    Access access() const noexcept { return access_; }
    void set_key(uint32_t key) noexcept { lkey_ = key; }
    // Registers the region with the device.
    Status add_to(Device& device);

  private:
    VerbsRegion(std::shared_ptr<Devices> devices, std::span<std::byte> memory, Mapping mapping,
                Access access);

    const std::shared_ptr<Devices> devices_;
    const Mapping mapping_;
    const Access access_;
};

// Registers `memory` of the caller.
Result<std::unique_ptr<Region>> register_memory(std::shared_ptr<Devices> devices, std::span<std::byte> memory,
                                                Access access);
// Maps and registers `bytes` of zeroed memory, with huge pages where available.
Result<std::unique_ptr<Region>> allocate(std::shared_ptr<Devices> devices, size_t bytes, Access access);

}  // namespace wss::fabric::verbs
