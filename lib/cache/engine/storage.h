// SPDX-License-Identifier: Apache-2.0
// A storage process (RS) as an engine: volumes that are read and written as an SE commands, directly between
// the disk and the memory of a client or of the SE. For lib/cache/engine only.
//
//   read    [wait for a buffer] → disk → RDMA WRITE to the peer, with the immediate; also to the copy → kDone
//   write   [wait for a buffer] → RDMA READ from the peer → disk → kDone
//   others  disk → kDone
//   staged operations (reach.h) use their staging buffer as the buffer, and only the client of a read is a
//   peer
//
// Rules
//  RS1  A write reaches the disk only if the link is up when its data has arrived. An SE that has given up
//       this engine may have reported the write to its client as failed, and the client may have reused the
//       memory.
//  RS2  The engine joins again only when no operation is in flight: commands that an SE sends after a loss
//       are executed after all commands from before it.
//  RS3  A read that storage fails (record kFailed) has moved no data to the client.
//  RS4  The RS reports the size and the owner of each volume, and its loss to another owner, to the SE. It
//       does so with the join, when one of them changes (checked ten times a second), and before it reports a
//       failure that reveals a loss.
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

    // Reports the volumes after a welcome, which shows whether the SE accepts volume states (RS4).
    void introduce(RecordLink& link, const wire::CacheWelcome& welcome) noexcept;
    // Handle a kStorage and a kEngine record. They return false if it violates the protocol.
    bool begin(const wire::Record& record) noexcept;
    bool named(const wire::Record& record) noexcept;
    // One RDMA of the operation has completed.
    void moved(Operation& operation, wire::CacheStatus status) noexcept;
    // Sends the states of volumes that have changed. Returns false if none has. It is also called before the
    // link is closed, because only this process may know, for example, that the storage has another owner.
    bool report() noexcept;
    // The link has ended: waiting operations fail, and the connections to engines are closed.
    void link_over() noexcept;
    size_t turn() noexcept;
    bool is_quiet() const noexcept;
    // Ends the use of this storage. Returns false if requests to it are in flight. The link does not join
    // again.
    bool release(io::Backend& backend) noexcept;

  private:
    struct Job;
    struct Volume {
        std::string name;
        io::Backend* backend = nullptr;
        bool read_only = false;
        std::unique_ptr<io::Queue> queue;  // nullptr: the backend is released, and may be closed
        wire::CacheVolumeState reported;
        std::shared_ptr<std::atomic<uint64_t>> lowest;  // size since `reported`; set by the backend's thread
    };

    Storage(Engine& engine, SeLink& link);
    Status divide(std::span<std::byte> memory);
    void end_use(Volume& volume) noexcept;
    bool needs_buffer(const Job& job) const noexcept;
    void start(Job& job) noexcept;
    void pull(Job& job) noexcept;
    void move_with_peer(Job& job) noexcept;
    void submit(Job& job) noexcept;
    static void io_done(io::Request& io) noexcept;
    void push(Job& job) noexcept;
    void end(Job& job, wire::CacheStatus status, int error) noexcept;
    wire::CacheVolumeState state_of(uint32_t number) const;
    bool send_state(Volume& volume, wire::CacheVolumeState state) noexcept;
    bool report(uint32_t number) noexcept;
    static void look(void* self) noexcept;

    Engine& engine_;
    SeLink& link_;
    std::vector<Volume> volumes_;
    std::vector<std::unique_ptr<Job>> jobs_;  // indexed by id
    std::vector<std::byte*> free_;
    List<Operation> waiting_;       // operations that wait for a buffer
    std::unique_ptr<Reach> reach_;  // nullptr: no connections to engines
    reactor::Timer look_;           // set while the SE accepts volume states
    bool owners_ = false;           // the SE accepts owners, too
    bool terms_ = false;            // the SE accepts terms (io::Succession), too
};

}  // namespace wss::cache
