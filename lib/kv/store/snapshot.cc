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

std::string partial(const std::string& directory) {
    return directory + ".partial";
}

// Creates the folder of `directory` and its missing parents.
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
    std::error_code error;
    if (std::filesystem::exists(directory, error))
        return failure(Code::kExists, "{} already exists; a snapshot is a new directory", directory);
    WSS_TRY(make_parents(directory));
    std::filesystem::remove_all(partial(directory), error);  // left by a crash
    Result<std::unique_ptr<RocksLog>> log =
        RocksLog::open({.path = partial(directory), .identity = identity, .sync = false});
    if (!log) return log.status();
    store.raise_floor(at);
    return std::unique_ptr<Snapshot>(new Snapshot(store, at, directory, std::move(*log)));
}

Snapshot::~Snapshot() {
    store_.forget(this);
    if (done_) return;
    log_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(partial(directory_), ignored);
}

Result<bool> Snapshot::step(size_t keys) {
    if (done_) return true;
    if (!pin_) {
        if (!store_.settled(at_)) return false;
        pin_ = store_.pin(at_);
        progress_++;
    }
    if (!at_end_ && fetching_ < kFetchesMax && !log_->is_congested()) WSS_TRY(copy(keys));
    if (lost_ != nullptr) return failure(Code::kIo, "{}: the snapshot is abandoned", lost_);
    if (!at_end_ || fetching_ > 0) return false;
    WSS_TRY(finish());
    return true;
}

Result<bool> Snapshot::turn(Clock& clock) {
    const Nanoseconds began = clock.now();
    const uint64_t before = progress_;
    for (int steps = 0; steps < kTurnSteps && clock.now() - began < kTurnTime; ++steps) {
        const uint64_t reached = progress_;
        Result<bool> stepped = step();
        if (!stepped || *stepped) return stepped;
        if (progress_ == reached) break;  // it waits
    }
    if (progress_ != before || !progressed_at_) progressed_at_ = began;
    if (began - *progressed_at_ < kProgressLimit) return false;
    return Status(Code::kTimedOut, is_waiting() ? "the snapshot waits for an undecided transaction"
                                                : "the disk accepts or returns no data of the snapshot");
}

Status Snapshot::copy(size_t keys) {
    // Fetching changes the store, which invalidates the scan's views: cold versions are fetched after the
    // scan.
    std::vector<std::pair<std::string, Timestamp>> cold;
    const Scanned scanned = store_.scan("", cursor_, at_, [&](const Found& found) {
        if (found.presence == Presence::kGone) {
            lost_ = "a version that the snapshot needs was replaced and collected before the snapshot began";
            return false;
        }
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

Status Snapshot::finish() {
    // A server that starts from the snapshot must refuse older prepares, which would add parts of
    // transactions.
    batch_.put_floor(at_);
    log_->append(std::move(batch_), 0);
    batch_ = {};
    WSS_TRY(log_->flush());
    log_.reset();
    pin_.reset();
    std::error_code error;
    std::filesystem::rename(partial(directory_), directory_, error);
    if (error)
        return Status::from_errno(error.value(), "renaming " + partial(directory_) + " to " + directory_);
    WSS_TRY(sync_folder_of(directory_));
    done_ = true;
    return Status::ok();
}

}  // namespace wss::kv::store
