// SPDX-License-Identifier: Apache-2.0
// OwnClients: the clients of this process, by their numbers at Ceph.
//
// A client of a clone watches the header of each of its parents. If this process serves the parent, too, that
// watch is not one of another program: a process opens each image once (claim.h), so that only the client of
// the image itself can write it.
//
// Thread-safety: functions; any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

namespace wss::io::rbd {

// Membership of one client. Ends with the object.
class OwnClients {
  public:
    OwnClients() = default;
    ~OwnClients() {
        if (client_ == 0) return;
        std::lock_guard lock(all().m);
        all().clients.erase(client_);
    }
    OwnClients(const OwnClients&) = delete;
    OwnClients& operator=(const OwnClients&) = delete;

    // Once.
    void add(uint64_t client) {
        std::lock_guard lock(all().m);
        all().clients.insert(client);
        client_ = client;
    }
    static bool contains(uint64_t client) {
        std::lock_guard lock(all().m);
        return all().clients.contains(client);
    }

  private:
    struct All {
        std::mutex m;
        std::set<uint64_t> clients;
    };
    static All& all() {
        static All* const one = new All;  // outlives abandoned clients
        return *one;
    }
    uint64_t client_ = 0;
};

}  // namespace wss::io::rbd
