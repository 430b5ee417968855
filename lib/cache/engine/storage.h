// SPDX-License-Identifier: Apache-2.0
// Real storage (RS) as an engine: volumes that are read and written at an SE's word, straight between disk
// and the memory of a client, or the SE's. For lib/cache/engine only.
//
//   read    [wait for a buffer] → disk → RDMA WRITE to the peer, with the immediate; beside it to the copy →
//   kDone write   [wait for a buffer] → RDMA READ from the peer → disk → kDone others  disk → kDone
//   in a bay (reach.h): the bay is the buffer, and there is no peer but perhaps the client of a read
//
// Rules
//  RS1  A write reaches the disk only if the link is up when its data has come: an SE that has given us up
//  may
//       have told its client that the write failed, whose memory holds something else then.
//  RS2  We join again only when nothing is under way: what an SE asks for after it lost us comes after all
//       that it asked for before.
//  RS3  A read that fails has not reached the client.
//  RS4  The SE knows the size of each volume and whether it is lost to another owner: from the join on, each
//       second, and before the operation that failed for it is answered.
//
// Thread-safety: belongs to the engine's reactor. Allocates nothing per operation.
#pragma once

#include <atomic>
#include <memory>

#include "lib/cache/engine/engine_parts.h"
#include "lib/cache/engine/reach.h"

namespace wss::cache {

class Engine::Storage {
  public:
    static Result<std::unique_ptr<Storage>> create(Engine& engine, SeLink& link, std::span<std::byte> memory);
    ~Storage();

    // After the welcome: says what there is; `states`: the SE takes the states of volumes (RS4).
    void introduce(RecordLink& link, bool states) noexcept;
    // A kStorage, a kEngine; false: nobody may say this.
    bool begin(const wire::Record& record) noexcept;
    bool named(const wire::Record& record) noexcept;
    // One RDMA of it is over.
    void moved(Operation& operation, wire::CacheStatus status) noexcept;
    // The link is over: what has not begun does not, and engines do not reach us any more.
    void link_over() noexcept;
    size_t turn() noexcept;
    bool is_quiet() const noexcept;

  private:
    struct Job;
    struct Volume {
        std::string name;
        io::Backend* backend = nullptr;
        std::unique_ptr<io::Queue> queue;
        wire::CacheVolumeState reported;
        std::shared_ptr<std::atomic<uint64_t>> lowest;  // size since then, written by the backend's thread
    };

    Storage(Engine& engine, SeLink& link);
    Status divide(std::span<std::byte> memory);
    bool needs_buffer(const Job& job) const noexcept;
    void start(Job& job) noexcept;
    void pull(Job& job) noexcept;
    void move_with_peer(Job& job) noexcept;
    void submit(Job& job) noexcept;
    static void io_done(io::Request& io) noexcept;
    void push(Job& job) noexcept;
    void end(Job& job, wire::CacheStatus status, int error) noexcept;
    wire::CacheVolumeState state_of(uint32_t number) const;
    void send_state(Volume& volume, wire::CacheVolumeState state) noexcept;
    void report(uint32_t number) noexcept;
    static void look(void* self) noexcept;

    Engine& engine_;
    SeLink& link_;
    std::vector<Volume> volumes_;
    std::vector<std::unique_ptr<Job>> jobs_;  // by id
    std::vector<std::byte*> free_;
    List<Operation> waiting_;       // for a buffer
    std::unique_ptr<Reach> reach_;  // nullptr: no engine is reached
    reactor::Timer look_;           // set while the SE takes states
};

}  // namespace wss::cache
