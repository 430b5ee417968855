// SPDX-License-Identifier: Apache-2.0
#include "target/volume/volume.h"

#include <algorithm>

namespace wss::volume {

std::string reason_of(const Status& failed, std::string_view name) {
    std::string text = failed.to_string();
    const std::string named = fmt::format("volume {}", name);
    if (text.starts_with(named + ": ")) return text.substr(named.size() + 2);
    if (text.starts_with(named + " ")) return text.replace(0, named.size(), "it");
    return text;
}

Status check_name(std::string_view name) {
    auto allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '_' || c == '-';
    };
    bool fine = !name.empty() && name.size() <= kNameMax && name[0] != '.' && name[0] != '-' &&
                std::all_of(name.begin(), name.end(), allowed);
    if (fine) return Status::ok();
    return failure(
        Code::kInvalid,
        "invalid volume name '{}': use 1 to {} of A-Z a-z 0-9 . _ -, beginning with a letter, digit or _",
        name, kNameMax);
}

std::string wwid_text(uint64_t wwid) {
    return fmt::format("naa.3{:015x}", wwid);
}

void Totals::add(const Counters& counters) {
    auto value = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
    reads += value(counters.reads);
    writes += value(counters.writes);
    flushes += value(counters.flushes);
    discards += value(counters.discards);
    others += value(counters.others);
    read_bytes += value(counters.read_bytes);
    written_bytes += value(counters.written_bytes);
    errors += value(counters.errors);
    delayed += value(counters.delayed);
    delayed_ns += value(counters.delayed_ns);
}

std::string_view to_string(Change change) {
    switch (change) {
        case Change::kAdded:
            return "added";
        case Change::kRemoved:
            return "removed";
        case Change::kResized:
            return "resized";
        case Change::kReadOnly:
            return "read-only changed";
        case Change::kAccess:
            return "access changed";
        case Change::kLimits:
            return "limits changed";
    }
    return "unknown";
}

Volume::Volume(VolumeOptions options, Identity identity, std::unique_ptr<io::Backend> backend)
    : options_(std::move(options)),
      identity_(identity),
      storage_name_(io::storage_name(options_.backend)),
      backend_(std::move(backend)),
      limits_(backend_->limits()),
      size_(options_.size, options_.block_size),
      read_only_(options_.read_only) {
    limits_.size = options_.size;
    limits_.logical_block = options_.block_size;
    limits_.physical_block = std::max(limits_.physical_block, options_.block_size);
}

Volume::~Volume() = default;

std::span<std::byte> Volume::memory() const {
    std::span<std::byte> all = backend_->memory();
    return all.first(std::min<size_t>(all.size(), size()));
}

OpenVolume::~OpenVolume() {
    WSS_ASSERT(users_ == 0, "a volume in use must not close");
}

}  // namespace wss::volume
