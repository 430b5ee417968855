// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/snapshot.h"

#include <filesystem>

#include "lib/base/folder.h"
#include "lib/kv/store/slot_format.h"

namespace wss::kv::store {
namespace {

constexpr size_t kFetchesMax = 64;
constexpr Nanoseconds kTurnTime = from_us(500);  // all requests wait meanwhile
constexpr int kTurnSteps = 64;
constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr std::string_view kThread = "a snapshot";

std::string partial(const std::string& directory) {
    return directory + ".partial";
}

// Creates the missing parents of `directory`.
Status make_parents(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> missing;
    std::error_code error;
    for (auto at = directory.parent_path(); !at.empty() && !std::filesystem::exists(at, error);
         at = at.parent_path())
        missing.push_back(at);
    for (; !missing.empty(); missing.pop_back()) WSS_TRY(make_folder(missing.back().string()));
    return Status::ok();
}

}  // namespace

Result<std::unique_ptr<Snapshot>> Snapshot::begin(Store& store, Timestamp at, const std::string& directory,
                                                  const std::string& identity) {
    // Before it waits for anything: writes continue, and versions that they replace are collected unless
    // pinned.
    Result<Pin> pin = store.pin(at);
    if (!pin) return pin.status();
    std::unique_ptr<Snapshot> made(new Snapshot(store, std::move(*pin), directory));
    store.raise_floor(at);
    WSS_TRY(
        made->disk_.begin(kThread, [snapshot = made.get(), identity] { return snapshot->open(identity); }));
    return made;
}

Snapshot::~Snapshot() {
    store_.forget(this);
    if (disk_.is_in_progress()) (void)disk_.wait();
    if (phase_ != Phase::kComplete && phase_ != Phase::kRemoved) remove();
}

Status Snapshot::open(const std::string& identity) {
    std::error_code error;
    if (std::filesystem::exists(directory_, error))
        return failure(Code::kExists, "{} already exists; a snapshot is a new directory", directory_);
    WSS_TRY(make_parents(directory_));
    std::filesystem::remove_all(partial(directory_), error);  // left by a crash
    auto log = RocksLog::open({.path = partial(directory_), .identity = identity, .sync = false});
    if (!log) return log.status();
    log_ = std::move(*log);
    return Status::ok();
}

Status Snapshot::complete() {
    log_->append(std::move(batch_), 0);
    WSS_TRY(log_->flush());
    log_.reset();
    std::error_code error;
    std::filesystem::rename(partial(directory_), directory_, error);
    if (error)
        return Status::from_errno(error.value(), "renaming " + partial(directory_) + " to " + directory_);
    return sync_folder_of(directory_);
}

void Snapshot::remove() {
    log_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(partial(directory_), ignored);
}

Result<bool> Snapshot::step(size_t keys) {
    Result<bool> advanced = advance(keys);
    if (!advanced) return abandon(advanced.status());
    return advanced;
}

Result<bool> Snapshot::advance(size_t keys) {
    if (phase_ == Phase::kComplete) return true;
    if (!settled_ && store_.settled(at_)) {
        settled_ = true;
        ++progress_;
    }
    if (phase_ == Phase::kCopying) return settled_ ? copy_step(keys) : false;
    const std::optional<Status> answered = disk_.poll();
    if (!answered) return false;
    WSS_TRY(*answered);
    ++progress_;
    const bool is_complete = phase_ == Phase::kCompleting;
    phase_ = is_complete ? Phase::kComplete : Phase::kCopying;
    return is_complete;
}

Result<bool> Snapshot::copy_step(size_t keys) {
    if (!at_end_ && fetching_ < kFetchesMax && !log_->is_congested()) WSS_TRY(copy(keys));
    if (lost_ != nullptr) return failure(Code::kIo, "{}: the snapshot is abandoned", lost_);
    if (!at_end_ || fetching_ > 0) return false;
    pin_.release();
    // A server that starts from the snapshot must refuse older prepares, which would add parts of
    // transactions.
    batch_.put_floor(at_);
    phase_ = Phase::kCompleting;
    WSS_TRY(disk_.begin(kThread, [this] { return complete(); }));
    return false;
}

Status Snapshot::abandon(Status why) {
    phase_ = Phase::kAbandoned;
    store_.forget(this);
    pin_.release();
    return why;
}

bool Snapshot::clean_up() {
    if (phase_ == Phase::kComplete || phase_ == Phase::kRemoved) return true;
    if (disk_.is_in_progress() && !disk_.poll()) return false;
    if (phase_ == Phase::kRemoving) {
        phase_ = Phase::kRemoved;
        return true;
    }
    // Without a thread the next tick tries again.
    const auto removing = [this] {
        remove();
        return Status::ok();
    };
    if (disk_.begin(kThread, removing)) phase_ = Phase::kRemoving;
    return false;
}

Result<bool> Snapshot::turn(Clock& clock) {
    const Nanoseconds began = clock.now();
    const uint64_t before = progress_;
    for (int steps = 0; steps < kTurnSteps && clock.now() - began < kTurnTime; ++steps) {
        const uint64_t reached = progress_;
        Result<bool> stepped = step();
        if (!stepped || *stepped) return stepped;
        if (progress_ == reached) break;  // the snapshot waits
    }
    if (progress_ != before || !progressed_at_) progressed_at_ = began;
    if (began - *progressed_at_ < kProgressLimit) return false;
    const char* const why = is_waiting() ? "the snapshot waits for an undecided transaction"
                                         : "the disk accepts or returns no data of the snapshot";
    return abandon(Status(Code::kTimedOut, why));
}

Status Snapshot::copy(size_t keys) {
    // Fetching changes the store, which invalidates the scan's views: cold versions are fetched after the
    // scan.
    std::vector<std::pair<std::string, Timestamp>> cold;
    const Scanned scanned = store_.scan("", cursor_, at_, [&](const Found& found) {
        if (keys == 0 || cold.size() == kFetchesMax) return false;
        keys--;
        if (found.cold)
            cold.emplace_back(found.version.key, found.version.timestamp);
        else
            add(found);
        return true;
    });
    at_end_ = scanned.is_over;
    progress_ += at_end_ || scanned.last != cursor_;
    cursor_ = std::string(scanned.last);
    for (const auto& [key, timestamp] : cold) {
        fetching_++;
        const auto done = [](void* context, const Found& found) noexcept {
            static_cast<Snapshot*>(context)->on_fetched(found);
        };
        store_.fetch(key, timestamp, {done, this});
    }
    if (!batch_.empty()) {
        log_->append(std::move(batch_), 0);
        batch_ = {};
    }
    return Status::ok();
}

void Snapshot::add(const Found& found) {
    const RecordView& version = found.version;
    std::vector<std::byte> record(
        record_bytes(version.key.size(), version.metadata.size(), version.value.size()));
    encode_record(version, 0, record);
    batch_.put_version(version.key, version.timestamp, record);
    keys_++;
    bytes_ += record.size();
    if (batch_.bytes() < kBatchBytes) return;
    log_->append(std::move(batch_), 0);
    batch_ = {};
}

void Snapshot::on_fetched(const Found& found) {
    fetching_--;
    progress_++;
    if (found.presence != Presence::kExact)
        lost_ = "a value on disk could not be read";
    else
        add(found);
}

}  // namespace wss::kv::store
