// SPDX-License-Identifier: Apache-2.0
// DiskShare: limits how many reads of a partition may wait for the disk and how many bytes they may hold
// meanwhile, and schedules their fetches. A waiting read holds all data that it has so far; it is admitted
// with its final size.
//
// Fair: a peer may hold at most as much as it leaves free for others, so there is always room for another
// peer. The disk gets few fetches at a time; waiting peers take turns. A peer that needs one value waits for
// one value of each other peer, and for the fetches already at the disk.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: a Hold returns its share when it is
// destroyed. Holds must be destroyed before their DiskShare, and the DiskShare before the store.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/kv/store/store.h"

namespace wss::kv {

// The reason of a refusal with KvStatus::kIo. The client tries again, because the version may also have been
// replaced and collected meanwhile.
constexpr std::string_view kUnreadable = "a value cannot be read from disk";

class DiskShare {
  public:
    static constexpr size_t kRequestsMax = 1024;
    static constexpr size_t kBytesMax = size_t{256} << 20;
    static constexpr size_t kFetchesMax = 32;  // fetches at the disk at a time

    // The share of one peer. Its fetches may outlive the peer.
    class Account {
        friend class DiskShare;
        struct Fetch {
            std::string key;
            Timestamp timestamp;
            store::FetchDone done;
        };
        size_t requests_ = 0, bytes_ = 0;
        std::deque<Fetch> waiting_;
    };
    using Owner = std::shared_ptr<Account>;

    class Hold {
      public:
        Hold() = default;
        Hold(Hold&& other) noexcept
            : share_(std::exchange(other.share_, nullptr)),
              owner_(std::move(other.owner_)),
              bytes_(std::exchange(other.bytes_, 0)) {}
        Hold& operator=(Hold&& other) noexcept {
            std::swap(share_, other.share_);
            std::swap(owner_, other.owner_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        ~Hold() {
            if (share_ != nullptr) share_->give_back(*owner_, bytes_);
        }
        // Calls `done` later, from within the store's poll().
        void fetch(store::Store& store, std::string key, Timestamp timestamp, store::FetchDone done) const {
            share_->fetch(store, owner_, {std::move(key), timestamp, done});
        }

      private:
        friend class DiskShare;
        Hold(DiskShare* share, Owner owner, size_t bytes)
            : share_(share), owner_(std::move(owner)), bytes_(bytes) {}
        DiskShare* share_ = nullptr;
        Owner owner_;
        size_t bytes_ = 0;
    };

    std::optional<Hold> admit(const Owner& owner, size_t bytes);

  private:
    struct UnderWay {
        DiskShare* share = nullptr;
        store::Store* store = nullptr;
        store::FetchDone done;  // empty: this entry is free
    };
    void give_back(Account& account, size_t bytes);
    void fetch(store::Store& store, const Owner& owner, Account::Fetch wanted);
    void fetch_next(store::Store& store);
    static void arrived(void* context, const store::Found& found) noexcept;

    size_t requests_ = 0, bytes_ = 0;
    std::deque<Owner> turns_;  // accounts that wait for the disk, each once
    std::array<UnderWay, kFetchesMax> under_way_;
};

}  // namespace wss::kv
