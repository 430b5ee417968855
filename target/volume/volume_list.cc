// SPDX-License-Identifier: Apache-2.0
// VolumeSet::list() and find(): the volumes as operators see them.
#include <algorithm>

#include "target/volume/volume_record.h"

namespace wss::volume {

VolumeInfo VolumeSet::info_of(const Record& record) const {
    VolumeInfo info;
    info.name = record.options.name;
    info.backend = record.options.backend;
    info.identity = record.identity;
    info.declared = record.options.declared;
    info.access = record.options.access;
    info.limits = record.options.limits;
    info.removing = record.state == Record::State::kRemoving && !record.reopening;
    if (record.volume) {
        info.size = record.volume->size();
        info.block_size = record.volume->block_size();
        info.read_only = record.volume->read_only();
        info.trouble = record.volume->backend().trouble();
        if (info.trouble.empty()) info.trouble = record.not_followed;
    }
    for (const auto& open : record.opens) info.totals.add(open->counters());
    return info;
}

static VolumeInfo info_of_closed(const Unopened::One& one) {
    const StoredVolume& stored = one.stored;
    return {.name = stored.options.name,
            .backend = stored.options.backend,
            .identity = stored.identity,
            .size = stored.sizes.resized() != 0 ? stored.sizes.resized() : stored.options.size,
            .block_size = stored.options.block_size,
            .read_only = stored.options.read_only || stored.write_protected,
            .declared = stored.options.declared,
            .closed = true,
            .access = stored.options.access,
            .limits = stored.options.limits,
            .trouble = one.why,
            .totals = {}};
}

std::vector<VolumeInfo> VolumeSet::list() const {
    std::vector<VolumeInfo> all;
    {
        std::lock_guard lock(m_);
        for (const auto& [name, record] : records_)
            if (record->state != Record::State::kOpening) all.push_back(info_of(*record));
        for (const Unopened::One& one : unopened_.all()) all.push_back(info_of_closed(one));
    }
    std::sort(all.begin(), all.end(),
              [](const VolumeInfo& a, const VolumeInfo& b) { return a.identity.lun < b.identity.lun; });
    return all;
}

Result<VolumeInfo> VolumeSet::find(const std::string& name) const {
    std::lock_guard lock(m_);
    auto found = records_.find(name);
    if (found != records_.end() && found->second->state != Record::State::kOpening)
        return info_of(*found->second);
    if (const Unopened::One* one = unopened_.find(name)) return info_of_closed(*one);
    return failure(Code::kNotFound, "there is no volume {}", name);
}

size_t VolumeSet::count() const {
    std::lock_guard lock(m_);
    return records_.size();
}

}  // namespace wss::volume
