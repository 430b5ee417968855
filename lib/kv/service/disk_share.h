// SPDX-License-Identifier: Apache-2.0
// DiskShare: how many reads of a partition may wait for the disk, how many bytes they may hold meanwhile, and
// in which order they fetch. What waits holds all that it has so far, and is admitted with what it will hold.
//
// Fair: a peer may hold as much as it leaves free, so that there is always room for another one. The disk is
// given few fetches at a time, which the peers that wait take in turns: a peer that asks for one value waits
// for one value of each of the others, and for those that the disk has already.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: a Hold gives back what it holds; it
// dies before its share, which dies before the store.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/kv/store/store.h"

namespace wss::kv {

class DiskShare {
  public:
    static constexpr size_t kRequestsMax = 1024;
    static constexpr size_t kBytesMax = size_t{256} << 20;
    static constexpr size_t kFetchesMax = 32;  // that the disk has at a time

    // Of one peer. What it waits for may end after it.
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
        store::FetchDone done;  // none: free
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
