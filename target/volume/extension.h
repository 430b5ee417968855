// SPDX-License-Identifier: Apache-2.0
// What the owner of a VolumeSet hangs on each volume: registered memory, range locks. Volumes know nothing of
// fabrics; this is the seam.
//
// Created on the control thread before the volume is seen by any reactor, destroyed (on whichever thread lets
// go last) after the last reactor let go and before the backend is closed.
#pragma once

#include <cstddef>
#include <span>

#include "lib/base/status.h"

namespace wss::volume {

class Extension {
  public:
    virtual ~Extension() = default;
    // The volume's memory is about to become `memory` (same address, longer): called on the control thread
    // before any reactor sees the new size, so that new regions can be registered. An error refuses the
    // resize. Not called for volumes without memory, nor when they shrink.
    virtual Status memory_grows(std::span<std::byte> memory) = 0;
};

}  // namespace wss::volume
