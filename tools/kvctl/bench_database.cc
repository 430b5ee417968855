// SPDX-License-Identifier: Apache-2.0
#include "tools/kvctl/bench_database.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tools/kvctl/bench_lanes.h"

namespace wss::kvctl {

namespace {

using kv::check::Outcome;
using kv::check::ReadItem;
using kv::check::Writer;

constexpr uint64_t kBatch = 64;  // records of one transaction of read_everything()

class StoreDatabase final : public ycsb::Database {
  public:
    StoreDatabase(BenchShared& shared, std::unique_ptr<kv::LocalClient> client, CheckedSession* checked,
                  uint32_t thread)
        : shared_(shared),
          client_(std::move(client)),
          checked_(checked),
          random_(shared.seed * 7919 + thread) {
        if (client_->sessions() > 1) lanes_.emplace(*client_);
    }
    ~StoreDatabase() override {
        std::lock_guard lock(shared_.mutex);
        shared_.statistics.add(client_->statistics());
        shared_.half_done += half_done_;
        shared_.conditions_won += conditions_won_;
        shared_.conditions_lost += conditions_lost_;
        shared_.unknown += unknown_;
    }

    Status read(std::span<const uint64_t> records, std::span<const std::string> keys,
                std::vector<std::string>& values) override;
    Status write(std::span<const uint64_t> records, std::span<const std::string> keys,
                 std::span<const std::string> values) override;
    Status scan(const std::string& first, uint64_t count, uint64_t& found) override;
    ycsb::Lanes* lanes() override { return lanes_ ? &*lanes_ : nullptr; }
    // Like read(), but without the values: a transaction that is checked and recorded.
    Status read_items(std::span<const uint64_t> records, std::span<const std::string> keys);
    const kv::GetAll& last_read() const { return get_; }

  private:
    void recall_deletions();
    void check_read();
    void note_read();
    void fill_items(std::span<const std::string> keys, std::span<const std::string> values,
                    const Writer& writer);
    void note_deletions();
    void draw_fault();
    void note_floors();
    void end_write(std::span<const uint64_t> records, const Writer& writer);
    void note_write(std::span<const uint64_t> records, Outcome outcome, kv::Timestamp timestamp,
                    const Writer& writer);
    Status replace(uint64_t record, const std::string& key, const std::string& value);
    Status update(std::span<const uint64_t> records, std::span<const std::string> keys,
                  std::span<const std::string> values);
    void note_expected();
    void end_update(std::span<const uint64_t> records, const Writer& writer);

    BenchShared& shared_;
    std::unique_ptr<kv::LocalClient> client_;
    std::optional<StoreLanes> lanes_;
    CheckedSession* checked_;  // nullptr: reads and writes are not verified
    Random random_;
    kv::GetAll get_;
    kv::PutAll put_;
    kv::PutIf put_if_;
    kv::Scan scan_;
    std::vector<uint64_t> distinct_records_, prints_, deleted_;
    std::vector<size_t> place_;  // for each requested key, its position among the distinct keys
    std::vector<kv::Timestamp> floors_;
    std::vector<ReadItem> checked_items_;
    std::vector<kv::check::Expected> expected_;
    std::vector<kv::check::HistorySession::Item> noted_, noted_reads_;
    uint64_t writes_ = 0, half_done_ = 0, conditions_won_ = 0, conditions_lost_ = 0, unknown_ = 0;
};

Status StoreDatabase::read_items(std::span<const uint64_t> records, std::span<const std::string> keys) {
    distinct_records_.clear();
    place_.clear();
    for (uint64_t record : records) {
        auto known = std::find(distinct_records_.begin(), distinct_records_.end(), record);
        place_.push_back(static_cast<size_t>(known - distinct_records_.begin()));
        if (known != distinct_records_.end()) continue;
        distinct_records_.push_back(record);
        if (get_.items.size() < distinct_records_.size()) get_.items.emplace_back();
        get_.items[distinct_records_.size() - 1].key = keys[place_.size() - 1];
    }
    get_.items.resize(distinct_records_.size());
    if (checked_ != nullptr) {
        prints_.clear();
        floors_.clear();
        for (const auto& item : get_.items) {
            prints_.push_back(kv::fingerprint(item.key));
            floors_.push_back(checked_->session->floor_of(prints_.back()));
        }
    }
    client_->run(get_);
    if (!get_.status) return get_.status;
    if (checked_ != nullptr) recall_deletions();
    if (checked_ != nullptr) check_read();
    if (checked_ != nullptr && checked_->history != nullptr) note_read();
    return Status::ok();
}

// A partition forgets deletions after a while. This sets the timestamps of the deletions that the session
// knows.
void StoreDatabase::recall_deletions() {
    for (size_t i = 0; i < get_.items.size(); ++i) {
        kv::GetAll::Item& item = get_.items[i];
        if (!item.found && item.timestamp.is_none())
            item.timestamp = checked_->session->forgotten_deletion(prints_[i], floors_[i]);
    }
}

void StoreDatabase::check_read() {
    checked_items_.clear();
    for (size_t i = 0; i < get_.items.size(); ++i) {
        const kv::GetAll::Item& item = get_.items[i];
        checked_items_.push_back(
            {prints_[i], item.timestamp, item.found, item.value, item.siblings, floors_[i]});
    }
    checked_->session->read(checked_items_);
}

void StoreDatabase::note_read() {
    noted_.clear();
    for (size_t i = 0; i < get_.items.size(); ++i) {
        const kv::GetAll::Item& item = get_.items[i];
        noted_.push_back({distinct_records_[i], item.timestamp.value});
        if (!item.found && !item.timestamp.is_none()) checked_->deletions.insert(item.timestamp.value);
    }
    checked_->history->read(noted_);
}

Status StoreDatabase::read(std::span<const uint64_t> records, std::span<const std::string> keys,
                           std::vector<std::string>& values) {
    WSS_TRY(read_items(records, keys));
    values.resize(keys.size());
    bool deleted = false;
    for (size_t i = 0; i < keys.size(); ++i) {
        const kv::GetAll::Item& item = get_.items[place_[i]];
        deleted |= !item.found;
        if (item.found) values[i].assign(item.value);
    }
    // Records may be missing if the run deletes keys.
    if (deleted && shared_.mischief.delete_share == 0)
        return Status(Code::kNotFound, "a record does not exist");
    return Status::ok();
}

void StoreDatabase::fill_items(std::span<const std::string> keys, std::span<const std::string> values,
                               const Writer& writer) {
    prints_.clear();
    for (const std::string& key : keys) prints_.push_back(kv::fingerprint(key));
    put_.items.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
        kv::PutAll::Item& item = put_.items[i];
        item.key = keys[i];
        item.remove =
            shared_.mischief.delete_share > 0 && ycsb::unit(random_) < shared_.mischief.delete_share;
        if (checked_ == nullptr)
            item.value.assign(values[i]);
        else
            kv::check::write_stamp(item.value,
                                   std::max(values[i].size(), kv::check::stamp_bytes(keys.size())), writer,
                                   prints_[i], prints_);
    }
    if (checked_ != nullptr) note_deletions();
}

void StoreDatabase::note_deletions() {
    deleted_.clear();
    for (size_t i = 0; i < put_.items.size(); ++i)
        if (put_.items[i].remove) deleted_.push_back(prints_[i]);
    checked_->session->will_delete(deleted_);
}

// A half-done write is like that of a client that dies: an arbitrary subset of its prepares and commits was
// sent.
void StoreDatabase::draw_fault() {
    put_.fault = {};
    if (shared_.mischief.fault_every == 0 || ++writes_ % shared_.mischief.fault_every != 0) return;
    ++half_done_;
    switch (random_.below(3)) {
        case 0:
            put_.fault.die_after_prepare = true;
            break;
        case 1:
            put_.fault.skip_commit = random_.next() | 1;
            break;
        default:
            put_.fault.skip_prepare = random_.next() | 1;
            put_.fault.die_after_prepare = true;
    }
}

void StoreDatabase::note_write(std::span<const uint64_t> records, Outcome outcome, kv::Timestamp timestamp,
                               const Writer& writer) {
    unknown_ += outcome == Outcome::kUnknown ? 1 : 0;
    if (checked_ == nullptr || checked_->history == nullptr || timestamp.is_none()) return;
    noted_.clear();
    for (uint64_t record : records) noted_.push_back({record, timestamp.value});
    if (outcome == Outcome::kUnknown)
        checked_->unknown.push_back({checked_->history->write_unknown(noted_), writer, timestamp});
    else
        checked_->history->write(noted_, outcome == Outcome::kFailed);
}

// Notes the timestamps that the write's own timestamp must exceed. Algorithm::kNone guarantees nothing.
void StoreDatabase::note_floors() {
    floors_.clear();
    if (checked_ == nullptr || shared_.options.algorithm == kv::Algorithm::kNone) return;
    for (uint64_t print : prints_) floors_.push_back(checked_->session->floor_of(print));
}

void StoreDatabase::end_write(std::span<const uint64_t> records, const Writer& writer) {
    bool half_done =
        put_.fault.die_after_prepare || put_.fault.skip_commit != 0 || put_.fault.skip_prepare != 0;
    Outcome outcome = put_.outcome_unknown || half_done ? Outcome::kUnknown
                      : put_.status                     ? Outcome::kCommitted
                                                        : Outcome::kFailed;
    if (checked_ != nullptr) checked_->session->end_write(writer, outcome, put_.timestamp, prints_, floors_);
    note_write(records, outcome, put_.timestamp, writer);
    if (half_done) put_.status = Status::ok();  // the write was left half-done on purpose
}

Status StoreDatabase::write(std::span<const uint64_t> records, std::span<const std::string> keys,
                            std::span<const std::string> values) {
    if (!shared_.is_loading && shared_.mischief.conditional_share > 0 &&
        ycsb::unit(random_) < shared_.mischief.conditional_share)
        return records.size() == 1 ? replace(records[0], keys[0], values[0]) : update(records, keys, values);
    Writer writer = checked_ == nullptr ? Writer{} : checked_->session->begin_write();
    fill_items(keys, values, writer);
    note_floors();
    draw_fault();
    client_->run(put_);
    end_write(records, writer);
    return put_.status;
}

// Reads one key and replaces the version that it found. Of several concurrent attempts, one succeeds.
Status StoreDatabase::replace(uint64_t record, const std::string& key, const std::string& value) {
    WSS_TRY(read_items({&record, 1}, {&key, 1}));
    put_if_.key = key;
    put_if_.condition = kv::PutIf::Condition::kTimestamp;
    put_if_.expected = get_.items[0].timestamp;
    if (put_if_.expected.is_none()) return Status(Code::kNotFound, "a record does not exist");
    uint64_t print = kv::fingerprint(key);
    Writer writer = checked_ == nullptr ? Writer{} : checked_->session->begin_write();
    if (checked_ == nullptr)
        put_if_.value.assign(value);
    else
        kv::check::write_stamp(put_if_.value, std::max(value.size(), kv::check::stamp_bytes(1)), writer,
                               print, {&print, 1});
    client_->run(put_if_);
    bool won = put_if_.status.is_ok(), lost = put_if_.status.code() == Code::kRefused;
    conditions_won_ += won ? 1 : 0;
    conditions_lost_ += lost ? 1 : 0;
    Outcome outcome = won                       ? Outcome::kCommitted
                      : put_if_.outcome_unknown ? Outcome::kUnknown
                                                : Outcome::kFailed;
    kv::Timestamp timestamp = lost ? kv::Timestamp{} : put_if_.timestamp;
    if (checked_ != nullptr && won)
        checked_->session->end_conditional(writer, timestamp, {&print, 1},
                                           {{{.key = print, .version = put_if_.expected, .floor = {}}}});
    else if (checked_ != nullptr)
        checked_->session->end_write(writer, outcome, timestamp, {&print, 1});
    note_write({&record, 1}, outcome, timestamp, writer);
    return lost ? Status::ok() : put_if_.status;
}

// Reads the keys, and writes some of them if none has changed. Of several conflicting attempts, at most one
// succeeds.
Status StoreDatabase::update(std::span<const uint64_t> records, std::span<const std::string> keys,
                             std::span<const std::string> values) {
    WSS_TRY(read_items(records, keys));
    put_.conditions.clear();
    put_.expect_unchanged(get_);
    note_expected();
    const size_t written = 1 + random_.below(keys.size());
    Writer writer = checked_ == nullptr ? Writer{} : checked_->session->begin_write();
    fill_items(keys.first(written), values.first(written), writer);
    note_floors();
    draw_fault();
    client_->run(put_);
    end_update(records.first(written), writer);
    put_.conditions.clear();
    return put_.status;
}

// Skips keys that were absent, because they may have existed between the read and the write.
void StoreDatabase::note_expected() {
    expected_.clear();
    noted_reads_.clear();
    for (size_t i = 0; i < get_.items.size() && checked_ != nullptr; ++i) {
        const kv::GetAll::Item& item = get_.items[i];
        if (!item.found) continue;
        const uint64_t print = kv::fingerprint(item.key);
        expected_.push_back({print, item.timestamp, checked_->session->floor_of(print)});
        noted_reads_.push_back({distinct_records_[i], item.timestamp.value});
    }
}

void StoreDatabase::end_update(std::span<const uint64_t> records, const Writer& writer) {
    if (put_.failed_condition) {
        ++conditions_lost_;
        put_.timestamp = {};
        put_.status = Status::ok();
        if (checked_ != nullptr) checked_->session->end_write(writer, Outcome::kFailed, {}, prints_);
        return;
    }
    const bool half_done = put_.fault.die_after_prepare || put_.fault.skip_commit != 0;
    if (!put_.status || half_done) return end_write(records, writer);
    ++conditions_won_;
    if (checked_ == nullptr) return;
    checked_->session->end_conditional(writer, put_.timestamp, prints_, expected_, floors_);
    if (checked_->history == nullptr) return;
    noted_.clear();
    for (uint64_t record : records) noted_.push_back({record, put_.timestamp.value});
    checked_->history->write_if(noted_reads_, noted_);
}

// Scans from `first` in the order of (partition, key). YCSB expects the order of keys. A store that
// distributes keys by hash has this order only within a partition.
Status StoreDatabase::scan(const std::string& first, uint64_t count, uint64_t& found) {
    scan_.prefix = "user";
    scan_.cursor = fmt::format("{}:{}", client_->partition_of(first), first);
    scan_.with_values = true;
    for (found = 0; found < count;) {
        scan_.limit = static_cast<uint32_t>(count - found);
        client_->run(scan_);
        if (!scan_.status) return scan_.status;
        found += scan_.rows.size();
        if (scan_.cursor.empty()) break;
    }
    return Status::ok();
}

Result<std::unique_ptr<StoreDatabase>> open_store(BenchShared& shared, uint32_t thread) {
    kv::Options options = shared.options;
    {
        std::lock_guard lock(shared.mutex);
        options.shared = shared.state;
    }
    auto client = kv::LocalClient::connect(options);
    if (!client) return client.status();
    {
        std::lock_guard lock(shared.mutex);
        if (shared.state == nullptr) shared.state = (*client)->shared();
    }
    return std::make_unique<StoreDatabase>(shared, std::move(*client), shared.open_session(), thread);
}

}  // namespace

CheckedSession* BenchShared::open_session() {
    if (checker == nullptr) return nullptr;
    auto checked = std::make_unique<CheckedSession>();
    checked->session = checker->open_session();
    if (history != nullptr)
        checked->history = std::make_unique<kv::check::HistorySession>(*history, checked->session->number());
    std::lock_guard lock(mutex);
    sessions.push_back(std::move(checked));
    return sessions.back().get();
}

Result<std::unique_ptr<ycsb::Database>> open_database(BenchShared& shared, uint32_t thread) {
    auto store = open_store(shared, thread);
    if (!store) return store.status();
    return std::unique_ptr<ycsb::Database>(std::move(*store));
}

static void note_as_load(BenchShared& shared, const kv::GetAll& read, uint64_t first) {
    std::map<uint64_t, std::vector<kv::check::HistorySession::Item>> by_timestamp;
    for (size_t i = 0; i < read.items.size(); ++i)
        if (!read.items[i].timestamp.is_none())
            by_timestamp[read.items[i].timestamp.value].push_back({first + i, read.items[i].timestamp.value});
    // Each transaction gets its own session, because the order of the transactions is unknown.
    for (const auto& [timestamp, items] : by_timestamp) {
        static std::atomic<uint64_t> loads{kv::check::kInitialSessions};
        kv::check::HistorySession session(*shared.history, loads.fetch_add(1));
        session.write(items);
        (void)session.flush();  // HistoryFile::close() reports the error
    }
}

Status read_everything(BenchShared& shared, const ycsb::Workload& workload, uint64_t count, bool as_load) {
    auto store = open_store(shared, UINT32_MAX);
    if (!store) return store.status();
    std::vector<uint64_t> records;
    std::vector<std::string> keys;
    for (uint64_t first = 0; first < count; first += kBatch) {
        records.clear();
        keys.clear();
        for (uint64_t record = first; record < std::min(first + kBatch, count); ++record) {
            records.push_back(record);
            keys.push_back(workload.key(record));
        }
        if (Status read = (*store)->read_items(records, keys); !read)
            return read.within("reading everything");
        if (as_load && shared.history != nullptr) note_as_load(shared, (*store)->last_read(), first);
    }
    return Status::ok();
}

Status settle_history(BenchShared& shared) {
    if (shared.history == nullptr) return Status::ok();
    const auto was_deletion_seen = [&](kv::Timestamp timestamp) {
        return std::any_of(shared.sessions.begin(), shared.sessions.end(),
                           [&](const auto& checked) { return checked->deletions.contains(timestamp.value); });
    };
    for (auto& checked : shared.sessions) {
        for (const CheckedSession::Unknown& one : checked->unknown)
            checked->history->resolve(
                one.in_history, shared.checker->was_seen(one.writer) || was_deletion_seen(one.timestamp));
        WSS_TRY(checked->history->flush());
    }
    return shared.history->close();
}

}  // namespace wss::kvctl
