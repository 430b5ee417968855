// SPDX-License-Identifier: Apache-2.0
// Extension: state that the owner of a VolumeSet attaches to each volume, such as registered memory. It keeps
// volumes independent of fabrics.
//
// Lifetime: created on the control thread before any reactor uses the volume. Destroyed after the last
// reactor has released the volume and before its backend is destroyed, on the thread that destroys the volume
// (TV3).
#pragma once

#include <cstddef>
#include <span>

#include "lib/base/status.h"

namespace wss::volume {

class Extension {
  public:
    virtual ~Extension() = default;
    // The volume's memory is about to grow to `memory` (same address, longer). Called on the control thread
    // before any reactor uses the new size, so that new regions can be registered. An error refuses the
    // resize. Not called for volumes without memory, nor when they shrink.
    virtual Status memory_grows(std::span<std::byte> memory) = 0;
};

}  // namespace wss::volume
