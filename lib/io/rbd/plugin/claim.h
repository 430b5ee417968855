// SPDX-License-Identifier: Apache-2.0
// Claim: the right of one client of this process to use an image. Without it two volumes of one image,
// specified in different ways, would take it from each other: each would find a live owner, and steal=true
// shuts out a live owner.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace wss::io::rbd {

class Claim {
  public:
    Claim() = default;
    ~Claim() { release(); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    // May be called once. `image` identifies the image, however it is specified. While this client has the
    // claim, claims of other clients fail with kRefused, and the error contains `name`. A target that starts
    // then continues without the volume of the other client.
    Status take(const std::string& image, const std::string& name);
    // Does not block.
    void release() noexcept;
};

}  // namespace wss::io::rbd
