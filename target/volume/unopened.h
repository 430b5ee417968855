// SPDX-License-Identifier: Apache-2.0
// Unopened: volumes that should be open and are not, with the reasons. These are volumes of the state file
// that a start has not opened yet or could not open, and others whose storage is gone or refused. All stay in
// the file.
//
// Thread-safety: none; its VolumeSet guards it.
#pragma once

#include <string>
#include <vector>

#include "target/volume/state_file.h"

namespace wss::volume {

class Unopened {
  public:
    struct One {
        StoredVolume stored;
        std::string why;
    };

    // Keeps an existing entry of the same name.
    void add(StoredVolume stored, const std::string& why);
    // Replaces the reason. Does nothing without an entry.
    void explain(const std::string& name, const std::string& why);
    // False: there was no entry.
    bool erase(const std::string& name);

    const One* find(const std::string& name) const;
    const std::vector<One>& all() const { return all_; }

  private:
    std::vector<One> all_;
};

}  // namespace wss::volume
