// SPDX-License-Identifier: Apache-2.0
// Who had an image, and whether another one had it in between.
//
// The image's metadata names the owner that had it last, and a number that is drawn when the owner changes.
// An owner that finds its own name changes nothing: so the number is the same for as long as no other owner
// (of this kind) has had the image, whatever process dies when. Who keeps data for the image elsewhere
// remembers the number with it.
//
// Other programs (qemu, rbd bench) write no such name.
#pragma once

#include <rbd/librbd.h>

#include <string>

#include "lib/base/status.h"

namespace wss::io::rbd {

// With the lock. Returns the number, and which image it is of; empty: nobody has written one, and a read-only
// client does not. `owner` empty: another one than all before. `name` of the image, for the log.
Result<std::string> note_owner(rbd_image_t image, const std::string& name, const std::string& header,
                               const std::string& owner, bool read_only);

}  // namespace wss::io::rbd
