// SPDX-License-Identifier: Apache-2.0
// Health: whether the threads of a program respond, and whether the program serves. A caller waits for no
// longer than its patience, whatever the threads do: a request to a thread stays open until the thread
// answers it, is not repeated, and its age is what is reported.
//
// Thread-safety: add() before the first check; the rest from any thread.
// Lifetime: threads may answer after the Health is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"

namespace wss::http {

class Health {
  public:
    static constexpr Nanoseconds kPatience = from_ms(500);

    // Why a part does not serve; "": it does.
    using Answer = std::function<void(std::string reason)>;
    // Has `answer` called by the thread in question.
    using Ask = std::function<void(Answer answer)>;

    // `name` is that of the thread, for messages.
    void add(std::string name, Ask ask);

    // Whether no request to a thread is older than `limit`. Waits for answers for `patience` at most.
    Status alive(Nanoseconds limit, Nanoseconds patience = kPatience) const;
    // Whether every part serves, as of its last answer.
    Status ready(Nanoseconds limit) const;

  private:
    struct Part;
    // Sends a request to the parts that have none open and waits for `patience` in all.
    void ask_all(Nanoseconds patience) const;

    std::vector<std::shared_ptr<Part>> parts_;
};

}  // namespace wss::http
