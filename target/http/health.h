// SPDX-License-Identifier: Apache-2.0
// Health: whether the threads of a program respond, and whether the program is ready to serve. A caller waits
// at most `patience`, whatever the threads do. A request to a thread stays open until the thread answers. It
// is not repeated, and its age is reported.
//
// Thread-safety: add() is called before the first check; the rest may be called from any thread.
// Lifetime: threads may answer after the Health is destroyed.
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

    // Reports why a part is not ready, or "" if it is ready.
    using Answer = std::function<void(std::string reason)>;
    // Makes the thread of the part call `answer`.
    using Ask = std::function<void(Answer answer)>;

    // `name`: name of the thread, for messages.
    void add(std::string name, Ask ask);

    // OK if no open request to a thread is older than `limit`. Waits at most `patience` for answers.
    Status alive(Nanoseconds limit, Nanoseconds patience = kPatience) const;
    // OK if alive() is OK and every part was ready at its last answer.
    Status ready(Nanoseconds limit) const;

  private:
    struct Part;
    // Sends a request to each part that has no open one, and waits at most `patience` for all answers.
    void ask_all(Nanoseconds patience) const;

    std::vector<std::shared_ptr<Part>> parts_;
};

}  // namespace wss::http
