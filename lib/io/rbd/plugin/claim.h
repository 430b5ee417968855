// SPDX-License-Identifier: Apache-2.0
// Claim: that one client of this process has an image. Two volumes of one image, however they are spelled,
// would take it from each other: each would find a live owner, and steal=true shuts that out.
//
// Thread-safety: any thread.
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

    // Once. `image`: the same for each spelling of it; `name`: for the error of the next one that claims it.
    Status take(const std::string& image, const std::string& name);
    // The next one may have it. Does not block.
    void release() noexcept;
};

}  // namespace wss::io::rbd
