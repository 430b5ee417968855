// SPDX-License-Identifier: Apache-2.0
// OwnClients: the clients of this process, by cluster and by their numbers there.
//
// A client of a clone watches the header of each of its parents. If this process serves the parent, too, its
// own client of the clone is one of the parent's watchers. That client does not count as another user of the
// parent: a process opens each image once (claim.h), so that only the client of the image itself can write
// the image.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace wss::io::rbd {

// Membership of one client. Ends with the object.
class OwnClients {
  public:
    OwnClients() = default;
    ~OwnClients() {
        if (client_ == 0) return;
        std::lock_guard lock(all().m);
        all().clients.erase({cluster_, client_});
    }
    OwnClients(const OwnClients&) = delete;
    OwnClients& operator=(const OwnClients&) = delete;

    // May be called once.
    void add(std::string cluster, uint64_t client) {
        cluster_ = std::move(cluster);
        client_ = client;
        std::lock_guard lock(all().m);
        all().clients.insert({cluster_, client_});
    }
    const std::string& cluster() const { return cluster_; }
    // True if this process has that client in the same cluster.
    bool contains(uint64_t client) const {
        std::lock_guard lock(all().m);
        return all().clients.contains({cluster_, client});
    }

  private:
    struct All {
        std::mutex m;
        std::set<std::pair<std::string, uint64_t>> clients;
    };
    static All& all() {
        static All* const one = new All;  // outlives abandoned clients
        return *one;
    }
    std::string cluster_;
    uint64_t client_ = 0;
};

}  // namespace wss::io::rbd
