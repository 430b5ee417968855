// SPDX-License-Identifier: Apache-2.0
// Single operations on an image's header that are asked for and answered later. An OSD that has lost what it
// held answers none of them: one that is late is asked to end, and ends with ECANCELED at the latest then.
//
// Thread-safety: all of it may be called from any thread.
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
    // On a thread of librados: bytes of the answer or a negative errno, and the answer.
    using Over = std::function<void(int result, std::span<const char> answer)>;
    struct To {
        rados_ioctx_t pool = nullptr;
        const char* header = nullptr;
    };

    Questions() = default;
    Questions(const Questions&) = delete;
    Questions& operator=(const Questions&) = delete;

    // A method of Ceph's class rbd. False: librados has not taken it, and `over` is not called.
    bool ask(const To& to, const char* method, std::span<const char> input, Over over);
    // Those that began `limit` ago, or before. By boot_time(). OSDs that answer later than that are heard all
    // the same: the limit doubles until one is answered.
    void cancel_late(Nanoseconds now, Nanoseconds limit);
    // Blocks until none is under way. What is not answered within a second is cancelled.
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
    int64_t patience_ = 1;  // in limits
};

}  // namespace wss::io::rbd
