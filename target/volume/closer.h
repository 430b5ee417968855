// SPDX-License-Identifier: Apache-2.0
// Closer: creates the volumes of a VolumeSet, and closes them on a thread of its own (rule TV3 in volume.h).
//
// The last user of a volume may be a task on a reactor, or a notice on a thread of the storage. The closing
// of storage may block, and may wait for threads of that storage. So the deleter of each volume passes it to
// the closer.
//
// All volumes that have arrived begin to close before the thread waits for the first of them. A volume that
// arrives during such a wait begins to close after it.
//
// The constructor creates the thread, so that releasing a volume cannot fail.
//
// Thread-safety: all methods may be called from any thread. wait() and end() block, each as long as the
// backends need to close. Their caller must hold nothing that a closing needs.
// Lifetime: shared by the set and by its volumes, which may outlive the set.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "lib/base/list.h"
#include "target/volume/volume.h"

namespace wss::volume {

class Closer : public std::enable_shared_from_this<Closer> {
  public:
    // Without a thread, the last user of a volume closes it.
    explicit Closer(bool with_thread);
    ~Closer() { end(); }
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;

    std::shared_ptr<Volume> make(VolumeOptions options, Identity identity,
                                 std::unique_ptr<io::Backend> backend);
    // Releases `volumes`. Calls that wait for their storage end. Those without other users begin to close,
    // after a second at most.
    void release(std::vector<std::shared_ptr<Volume>> volumes);
    // Returns when every volume whose last user was gone before this call is closed.
    void wait();
    // Closes the remaining volumes and joins the thread. Later, the last user of a volume closes it.
    void end();

  private:
    void take(Volume* volume) noexcept;  // does not block while the thread exists
    void run(const std::stop_token& stop);

    std::mutex m_;
    std::condition_variable_any arrived_;
    std::condition_variable gone_;
    // Guarded by m_.
    List<Volume> waiting_;  // oldest first
    uint64_t taken_ = 0, closed_ = 0;
    bool ended_;
    std::jthread thread_;
};

}  // namespace wss::volume
