// SPDX-License-Identifier: Apache-2.0
// Damage to hellos and frames of a stream fabric (lib/fabric/stream/frame.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/stream/frame.h"

namespace wss::hostile {

// A frame with arbitrary contents. If `forges` is false, no connection takes it for a valid answer.
fabric::stream::Frame any_frame(Random& random, bool forges);

// Changes some bytes of a hello, mostly of the login or of the challenge in it.
void damage_hello(std::span<std::byte> hello, Random& random);

// Changes a frame with its payload, or adds another one. Returns false if the stream must end after it. If
// `forges` is false, the receiver accepts no data and no message that was changed.
bool damage_frame(std::vector<std::byte>& bytes, Random& random, bool forges);

}  // namespace wss::hostile
