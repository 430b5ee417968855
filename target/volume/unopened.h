// SPDX-License-Identifier: Apache-2.0
// Unopened: volumes that are to be open and are not, and why: those of the state file that a start has not
// opened yet or could not open, and others whose storage is gone or refused. Each stays in the file.
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

    // A volume is here once: the first one stays.
    void add(StoredVolume stored, const std::string& why);
    // Nothing, if it is not here.
    void explain(const std::string& name, const std::string& why);
    // False: it was not here.
    bool erase(const std::string& name);

    const One* find(const std::string& name) const;
    const std::vector<One>& all() const { return all_; }

  private:
    std::vector<One> all_;
};

}  // namespace wss::volume
