// SPDX-License-Identifier: Apache-2.0
// Start: builds items, versions and decisions from the log's rows.
#include <limits>

#include "lib/kv/store/parts.h"

namespace wss::kv::store {
namespace {

constexpr Nanoseconds kLongAgo{std::numeric_limits<int64_t>::min() / 2};  // overdue at once

class Recovery final : public LogVisitor {
  public:
    Recovery(Store::Parts& parts, const std::function<void(Timestamp)>& seen) : parts_(parts), seen_(seen) {}

    Status on_floor(Timestamp floor) override {
        parts_.set_floor(std::max(parts_.floor, floor));
        parts_.logged_floor = parts_.floor;
        return Status::ok();
    }
    Status on_transaction(const LoggedTransaction& row) override {
        if (seen_) seen_(row.timestamp);
        switch (row.state) {
            case LoggedState::kPrepared: {
                Decision& decision = parts_.create(row.timestamp, DecisionState::kPrepared);
                decision.participants = row.participants;
                decision.since = kLongAgo;
                decision.promised = true;  // possibly: promises are not logged
                for (const std::string& key : row.held) parts_.hold(decision, key);
                return Status::ok();
            }
            case LoggedState::kCommitted:
                parts_.finished.add(row.timestamp, parts_.clock.now());
                return Status::ok();
            case LoggedState::kAborted:
                parts_.create(row.timestamp, DecisionState::kAborted);
                return Status::ok();
        }
        return failure(Code::kIo, "the log has a transaction {} of unknown state", row.timestamp.value);
    }
    Status on_version(std::string_view key, Timestamp timestamp, Bytes bytes) override {
        RecordView record;
        if (!parse_record(bytes, record) || record.key != key || record.timestamp != timestamp)
            return failure(Code::kIo, "the log has a damaged version {} of key '{}'", timestamp.value, key);
        if (seen_) seen_(timestamp);
        parts_.recover_version(record, bytes);
        return Status::ok();
    }

  private:
    Store::Parts& parts_;
    const std::function<void(Timestamp)>& seen_;
};

}  // namespace

void Store::Parts::recover_version(const RecordView& record, Bytes bytes) {
    Item& item = table.find_or_create(record.key);
    // All loaded versions are committed or prepared: nothing can be collected to make room.
    Version* version = table.add(item, record);
    if (version == nullptr) version = &table.add_cold(item, record, bytes.size());
    version->logged = true;
    Decision* decision = find(record.timestamp);
    if (decision != nullptr && decision->state == DecisionState::kPrepared) {
        version->sibling = decision->versions;
        decision->versions = version;
        table.set_prepared(*version);
    } else if (decision != nullptr && decision->state == DecisionState::kAborted) {
        trash.remove_version(item.key, version->timestamp);
        table.erase(*version);
        table.erase_if_empty(item);
        return;
    } else {
        table.commit(*version, clock.now());
        collected_to = std::max(collected_to, version->timestamp);
    }
    table.publish(item);
}

Status Store::Parts::recover(const std::function<void(Timestamp)>& seen) {
    if (log == nullptr || options.durability == Durability::kMemory) return Status::ok();
    Recovery recovery(*this, seen);
    WSS_TRY(log->load(recovery).within("reading the key-value log"));
    // The log does not tell which versions were collected. Each was replaced by a version that is still here,
    // or by a deletion at or below the floor.
    collected_to = std::max(collected_to, floor);
    flush_trash();
    return Status::ok();
}

}  // namespace wss::kv::store
