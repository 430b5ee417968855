// SPDX-License-Identifier: Apache-2.0
// FormerOwners: the owners of images that the check before a start found and the start will shut out
// (steal=true), by cluster and address.
//
// The check waits until dead clients are no longer listed as watchers of an image. A process that serves a
// clone and its parent leaves such a watch of the parent when it dies: that of the clone's client. The start
// shuts this client out before it takes the parent, which ends the watch.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace wss::io::rbd {

class FormerOwners {
  public:
    static void add(const std::string& cluster, const std::string& address) {
        std::lock_guard lock(all().m);
        all().owners.insert({cluster, address});
    }
    static bool contains(const std::string& cluster, const std::string& address) {
        std::lock_guard lock(all().m);
        return all().owners.contains({cluster, address});
    }

  private:
    struct All {
        std::mutex m;
        std::set<std::pair<std::string, std::string>> owners;  // few: one for each image of a start
    };
    static All& all() {
        static All* const one = new All;  // outlives abandoned clients
        return *one;
    }
};

}  // namespace wss::io::rbd
