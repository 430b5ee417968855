// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/ownership.h"

#include <array>
#include <cerrno>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/io/rbd/owner_mark.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr const char* kKey = "wss_owner";

std::string entropy() {
    return fmt::format("{:016x}{:016x}", Random::entropy(), Random::entropy());
}

}  // namespace

Result<std::string> note_owner(rbd_image_t image, const std::string& name, const std::string& header,
                               const std::string& owner, bool read_only) {
    std::array<char, 256> value{};
    size_t bytes = value.size();
    const int found = rbd_metadata_get(image, kKey, value.data(), &bytes);
    // What does not fit is nothing of ours.
    if (found < 0 && found != -ENOENT && found != -ERANGE)
        return refusal(-found, fmt::format("cannot read the image's metadata {}", kKey));
    const std::optional<OwnerMark> known = parse_owner_mark(found < 0 ? "" : value.data());
    if (known && (read_only || known->name == owner)) return fmt::format("{} {}", header, known->number);
    if (read_only) return std::string();
    const OwnerMark mark{.name = owner.empty() ? entropy() : owner, .number = entropy()};
    const int written = rbd_metadata_set(image, kKey, mark.text().c_str());
    if (written < 0) return refusal(-written, fmt::format("cannot write the image's metadata {}", kKey));
    // Engines of the former owner keep what they hold for it, which nothing else can bring home.
    if (known)
        log::warning(
            "rbd:{}: another owner had it last. If this one took it by mistake, has written nothing, and the "
            "other one was not running: stop it, then rbd image-meta set {} {} '{}'",
            name, name, kKey, known->text());
    return fmt::format("{} {}", header, mark.number);
}

}  // namespace wss::io::rbd
