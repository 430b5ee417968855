// SPDX-License-Identifier: Apache-2.0
// A store in plain memory with a clock that the test advances and a log that persists on request: the common
// base of the tests.
#pragma once

#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/kv/store/memory_log.h"
#include "lib/kv/store/slot_index.h"
#include "lib/kv/store/store.h"

namespace wss::kv::store {

class HandClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return now_; }
    void pass(Nanoseconds time) { now_ = now_ + time; }

  private:
    Nanoseconds now_ = from_s(1000);
};

struct Put {
    std::string key;
    std::string value;
};

inline Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Stores the answer of a continuation.
struct Heard {
    std::optional<Answer> answer;
    Continuation continuation() {
        return {[](void* context, Answer told) noexcept { static_cast<Heard*>(context)->answer = told; },
                this};
    }
};

// The result of a one-sided read of a key, computed only from the arena's bytes, by parse_slot() and
// check_record().
struct RemoteRead {
    SlotStatus slot = SlotStatus::kBad;
    SlotView view;
    std::optional<std::string> latest;
    bool latest_inline = false;
};

struct Bench {
    static constexpr size_t kArena = size_t{4} << 20;

    explicit Bench(Options wish = {}, size_t arena_bytes = kArena, Log* other_log = nullptr)
        : options(wish),
          memory(arena_bytes / 8),
          index(SlotIndex::bytes_for(arena_bytes) / 8),
          log(MemoryLog::Persist::kByHand),
          used_log(other_log) {
        if (options.epoch == 0) options.epoch = 77;
        if (used_log == nullptr && options.durability != Durability::kMemory) used_log = &log;
        start();
    }
    void start() {
        std::memset(memory.data(), 0, memory.size() * 8);
        std::memset(index.data(), 0, index.size() * 8);
        Result<std::unique_ptr<Store>> made = Store::create(
            options, {std::as_writable_bytes(std::span(memory)), std::as_writable_bytes(std::span(index))},
            clock, used_log);
        store = std::move(*made);
        recovered = store->recover();
    }
    void restart(size_t batches_kept) {
        store.reset();
        log.crash(batches_kept);
        options.epoch++;
        start();
    }

    Answer prepare(uint64_t ts, std::vector<Put> puts, Continuation done = {}) {
        return write(ts, puts, false, done);
    }
    Answer put(uint64_t ts, std::vector<Put> puts, Continuation done = {}) {
        return write(ts, puts, true, done);
    }
    Answer write(uint64_t ts, const std::vector<Put>& puts, bool at_once, Continuation done) {
        std::vector<Write> writes;
        for (const Put& put : puts) writes.push_back({.key = put.key, .value = bytes_of(put.value)});
        return write(ts, writes, at_once, done);
    }
    Answer write(uint64_t ts, const std::vector<Write>& writes, bool at_once = true, Continuation done = {}) {
        const Transaction transaction{.timestamp = {ts},
                                      .writes = writes,
                                      .metadata = bytes_of("metadata"),
                                      .participants = bytes_of("participants")};
        return at_once ? store->put(transaction, done) : store->prepare(transaction, done);
    }
    Answer write_if(uint64_t ts, const std::vector<Write>& writes, const std::vector<Condition>& conditions,
                    bool at_once = true, Continuation done = {}) {
        const Transaction transaction{.timestamp = {ts},
                                      .writes = writes,
                                      .participants = bytes_of("participants"),
                                      .in_order = true,
                                      .conditions = conditions,
                                      .conditional = true};
        return at_once ? store->put(transaction, done) : store->prepare(transaction, done);
    }
    Answer erase(uint64_t ts, std::string_view key) {
        return write(ts, std::vector<Write>{{.key = key, .tombstone = true}});
    }
    void persist() {
        log.persist(log.unpersisted());
        store->poll();
    }
    void pass(Nanoseconds time) {
        clock.pass(time);
        store->maintain({}, 1u << 20);
    }
    // Returns the value of a found version, from disk if it is cold.
    std::string value_of(const Found& found) {
        if (!found.cold) return text_of(found.version.value);
        std::string value;
        const auto keep = [](void* context, const Found& fetched) noexcept {
            *static_cast<std::string*>(context) = text_of(fetched.version.value);
        };
        store->fetch(std::string(found.version.key), found.version.timestamp, {keep, &value});
        store->poll();
        return value;
    }
    std::string get(std::string_view key) {
        const Found found = store->get(key);
        if (found.presence == Presence::kAbsent) return "(absent)";
        if (found.cold) return "(cold)";
        return found.version.tombstone ? "(deleted)" : text_of(found.version.value);
    }
    RemoteRead read_remotely(std::string_view key, SlotAddress address) {
        RemoteRead result;
        if (address.bytes == 0) return result;
        std::vector<uint64_t> copy((address.bytes + 7) / 8);
        auto* extent = reinterpret_cast<std::byte*>(copy.data());
        const auto* arena = reinterpret_cast<const std::byte*>(memory.data());
        copy_from_shared(extent, arena + address.offset, copy.size() * 8);
        const Bytes read{extent, address.bytes};
        result.slot = parse_slot(read, store->arena(), key, address, result.view);
        const Entry* entry = result.slot == SlotStatus::kOk ? result.view.latest() : nullptr;
        if (entry == nullptr || entry->is_cold()) return result;
        Bytes record = record_within(read, address, *entry);
        result.latest_inline = !record.empty();
        if (record.empty()) record = {arena + entry->offset, entry->length};
        RecordView version;
        if (check_record(record, store->arena(), key, *entry, version) == SlotStatus::kOk)
            result.latest = text_of(version.value);
        return result;
    }
    RemoteRead read_remotely(std::string_view key) { return read_remotely(key, store->get(key).slot); }

    Options options;
    HandClock clock;
    std::vector<uint64_t> memory, index;
    MemoryLog log;
    Log* used_log;
    std::unique_ptr<Store> store;
    Status recovered;
};

}  // namespace wss::kv::store
