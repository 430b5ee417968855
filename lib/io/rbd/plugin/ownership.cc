// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/ownership.h"

#include <array>
#include <cerrno>

#include "lib/base/clock.h"

namespace wss::io::rbd {

namespace {

constexpr const char* kKey = "wss_owner";

std::string entropy() {
    return fmt::format("{:016x}{:016x}", Random::entropy(), Random::entropy());
}

}  // namespace

Result<std::string> note_owner(rbd_image_t image, const std::string& header, const std::string& owner,
                               bool read_only) {
    std::array<char, 256> value{};
    size_t bytes = value.size();
    const int found = rbd_metadata_get(image, kKey, value.data(), &bytes);
    // What does not fit is nothing of ours.
    if (found < 0 && found != -ENOENT && found != -ERANGE)
        return Status::from_errno(-found, fmt::format("cannot read the image's metadata {}", kKey));
    const std::string_view known = found < 0 ? "" : value.data();
    const size_t space = known.find(' ');
    const bool is_ours = !owner.empty() && space != known.npos && known.substr(0, space) == owner;
    if (is_ours || read_only) {
        if (space == known.npos) return std::string();
        return fmt::format("{} {}", header, known.substr(space + 1));
    }
    const std::string number = entropy();
    const std::string name = owner.empty() ? entropy() : owner;
    const int written = rbd_metadata_set(image, kKey, fmt::format("{} {}", name, number).c_str());
    if (written < 0)
        return Status::from_errno(-written, fmt::format("cannot write the image's metadata {}", kKey));
    return fmt::format("{} {}", header, number);
}

}  // namespace wss::io::rbd
