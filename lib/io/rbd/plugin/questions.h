// SPDX-License-Identifier: Apache-2.0
// Questions: asynchronous operations on an image's header. An OSD that has lost its objects answers none of
// them. So late operations are cancelled, and end with ECANCELED if they were not answered before.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <rados/librados.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lib/base/clock.h"

namespace wss::io::rbd {

class Questions {
  public:
    // Called on a thread of librados when the operation has ended. `result`: bytes of the answer, or a
    // negative errno.
    using Over = std::function<void(int result, std::span<const char> answer)>;
    struct To {
        rados_ioctx_t pool = nullptr;
        const char* header = nullptr;
    };

    Questions() = default;
    Questions(const Questions&) = delete;
    Questions& operator=(const Questions&) = delete;

    // Calls a method of Ceph's class rbd. Returns false if librados has not accepted the operation. Then
    // `over` is not called.
    bool ask(const To& to, const char* method, std::span<const char> input, Over over);
    // Cancels operations that began at least `limit` ago, by boot_time(). Each call that cancels something
    // doubles the limit, until an answer comes, so that OSDs that need longer can answer, too.
    void cancel_late(Nanoseconds now, Nanoseconds limit);
    // Blocks until no operation is in flight. Operations without an answer within a second are cancelled.
    void end();

  private:
    struct Question {
        ~Question() {
            if (completion != nullptr) rados_aio_release(completion);
        }
        Questions* all = nullptr;
        rados_ioctx_t pool = nullptr;
        rados_completion_t completion = nullptr;
        Nanoseconds begun{};
        Over over;
        std::array<char, 16> answer{};
    };
    static void answered(rados_completion_t completion, void* context);
    std::shared_ptr<Question> remove(const Question& one, bool answered);

    std::mutex m_;
    std::condition_variable none_;
    // Guarded by m_.
    std::vector<std::shared_ptr<Question>> under_way_;
    int64_t patience_ = 1;  // factor of the limit
};

}  // namespace wss::io::rbd
