// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/room.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/descriptors.h"

namespace wss::io::rbd {

namespace {

// Twice the need of an open image, for connections to OSDs and descriptors that only an opening uses.
constexpr uint64_t kDescriptorsWanted = uint64_t{2} * kImageDescriptors;
constexpr uint32_t kThreadsWanted = kImageThreads + 4;

bool can_start_threads(uint32_t count) {
    // Only the main thread handles signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    std::vector<std::thread> threads;
    bool started = true;
    try {
        for (uint32_t i = 0; i < count; ++i) threads.emplace_back([ended] { ended.wait(); });
    } catch (const std::system_error&) {
        started = false;
    }
    end.set_value();
    for (std::thread& thread : threads) thread.join();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
}

}  // namespace

Status check_room() {
    // Leaves half of the reserve that peers cannot take, because the state file and control clients need
    // descriptors, too.
    const uint64_t wanted = kDescriptorsWanted + descriptor_reserve() / 2;
    const uint64_t left = descriptors_left();
    if (left < wanted)
        return failure(Code::kExhausted,
                       "too few file descriptors are left for another image: {}, and {} are wanted (an image "
                       "takes about {}, and one for each OSD): raise LimitNOFILE of the service (ulimit -n)",
                       left, wanted, kImageDescriptors);
    if (!can_start_threads(kThreadsWanted))
        return failure(Code::kExhausted,
                       "too few threads are left for another image, which takes about {}: raise TasksMax of "
                       "the service (ulimit -u, pids.max of its cgroup)",
                       kImageThreads);
    return Status::ok();
}

Status exhausted(const std::exception& thrown) {
    const auto* error = dynamic_cast<const std::system_error*>(&thrown);
    const int number = error != nullptr ? error->code().value() : 0;
    if (number == EMFILE || number == ENFILE)
        return failure(Code::kExhausted,
                       "file descriptors ran out in librados (an image takes about {}, and one for each "
                       "OSD): raise LimitNOFILE of the service (ulimit -n)",
                       kImageDescriptors);
    if (number == EAGAIN)
        return failure(Code::kExhausted,
                       "threads ran out in librados (an image takes about {}): raise TasksMax of the "
                       "service (ulimit -u, pids.max of its cgroup)",
                       kImageThreads);
    if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr)
        return failure(Code::kExhausted, "memory ran out in librados");
    return failure(Code::kExhausted, "librados failed: {}", thrown.what());
}

}  // namespace wss::io::rbd
