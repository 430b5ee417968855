// SPDX-License-Identifier: Apache-2.0
// Poller: the completion queues and the event channels of one thread.
//
// Devices come and go. A poller has a PollerDevice for each device that its connections use: from the first
// connection until the device has been removed and the last connection has ended. Once per second it looks
// for removed devices, failed ports and failed completion queues, and closes their connections.
//
// A turn (poll) takes completions in batches and delivers runs of one connection together. All other events
// (connection events, the notification that ends a sleep, deadlines, device events, name look-ups) are on one
// epoll descriptor, which is also fd(). Polling it costs a system call, so a turn does it only after a sleep
// and every kTurnsPerCheck turns.
//
// Finding the connection of a completion: the upper 31 bits of wr_id, its *tag*, hold an index into entries_
// and a generation. So a completion that outlives its connection is recognised and dropped.
//
// Thread-safety: none. A poller belongs to one thread. ConnectRequest::create(), which is called on this
// thread, moves an id here from another poller.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/verbs/completion_queues.h"
#include "lib/fabric/verbs/devices.h"
#include "lib/fabric/verbs/handles.h"

namespace wss::fabric::verbs {

class VerbsConnection;
class VerbsListener;

// A connection manager's event, copied so that it can be acknowledged before it is handled: destroying an id
// waits for its unacknowledged events.
struct CmEvent {
    rdma_cm_event_type type;
    int status = 0;
    rdma_cm_id* id = nullptr;
    uint8_t initiator_depth = 0;
    uint8_t responder_resources = 0;
    uint32_t queue_pair = 0;  // the peer's, in a connect request and its answer; 0 on iWARP
    uint8_t length = 0;
    std::array<std::byte, 256> bytes;
    std::span<const std::byte> data() const { return {bytes.data(), length}; }
};

// The context of an id points to it.
class CmHandler {
  public:
    virtual void on_cm_event(const CmEvent& event) noexcept = 0;

  protected:
    ~CmHandler() = default;
};

// What a poller has of one device.
struct PollerDevice {
    explicit PollerDevice(std::shared_ptr<Device> used) : device(std::move(used)), completions(*device) {}

    const std::shared_ptr<Device> device;
    CompletionQueues completions;
    std::vector<uint32_t> failures;  // Context::failures() whose connections have been closed, by port
    bool removed = false;            // its connections are being closed; it is destroyed when they have ended
};

class VerbsPoller final : public Poller {
  public:
    static Result<std::unique_ptr<VerbsPoller>> create(std::shared_ptr<Devices> devices);
    ~VerbsPoller() override;

    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return epoll_.get(); }
    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;

    // --- for connections ---
    // Opens the device that `bound` is bound to if the poller does not use it yet. The result exists while a
    // connection has a share of its completion queues.
    Result<PollerDevice*> use(rdma_cm_id& bound);
    const Caps& caps() const { return devices_->caps(); }
    rdma_event_channel* channel() const { return channel_.get(); }
    // A connection's entry in the table of tags. The destructor returns it.
    class Place {
      public:
        Place() = default;
        Place(Place&& other) noexcept : poller_(std::exchange(other.poller_, nullptr)), tag_(other.tag_) {}
        Place& operator=(Place&& other) noexcept {
            std::swap(poller_, other.poller_);
            std::swap(tag_, other.tag_);
            return *this;
        }
        ~Place() {
            if (poller_ != nullptr) poller_->detach(tag_);
        }
        uint32_t tag() const noexcept { return tag_; }

      private:
        friend class VerbsPoller;
        VerbsPoller* poller_ = nullptr;
        uint32_t tag_ = 0;
    };
    Result<Place> attach(VerbsConnection& connection);
    // Makes poll() examine the deadline() of each connection at `deadline` or later, and call on_deadline()
    // of those whose deadline has passed.
    void watch_deadline(Nanoseconds deadline);
    // Calls on_looked_up() of the connection with this tag when `fd` is readable, if the connection still
    // exists.
    Status watch_look_up(uint32_t tag, int fd);
    // Makes poll() call listen_again() of the listener every second until it succeeds.
    void interrupted(VerbsListener& listener);
    // Makes poll() call finish() of the connection, which makes the last call of its handler.
    void finish_soon(VerbsConnection& connection);

  private:
    struct Entry {
        VerbsConnection* connection = nullptr;
        uint32_t generation = 0;
    };
    static constexpr size_t kBatch = 32;

    explicit VerbsPoller(std::shared_ptr<Devices> devices);
    void detach(uint32_t tag) noexcept;
    Status set_up();
    Status watch(int fd, uint32_t kind, uint32_t number = 0);
    Status set_up(PollerDevice& device);
    PollerDevice* device_of(uint32_t index) noexcept;
    void check_devices() noexcept;
    void check_ports(PollerDevice& device) noexcept;
    void lose_connections(const std::function<bool(const VerbsConnection&)>& lost,
                          const Status& why) noexcept;
    void drop_removed() noexcept;
    size_t looked_up(uint32_t tag) noexcept;
    VerbsConnection* find(uint32_t tag) const noexcept;
    size_t poll_completions() noexcept;
    void dispatch(std::span<const ibv_wc> completions) noexcept;
    size_t check_events() noexcept;
    size_t take_cm_events() noexcept;
    size_t poll_device(PollerDevice& device, size_t budget) noexcept;
    size_t expire() noexcept;
    size_t finish_closed() noexcept;

    // Immutable after set_up(). Each member is destroyed before those that it uses.
    std::shared_ptr<Devices> devices_;
    EventChannel channel_;
    Descriptor timer_;
    Descriptor epoll_;

    // Owned by the thread.
    std::vector<std::unique_ptr<PollerDevice>> used_;
    size_t next_used_ = 0;  // the next turn begins with this device
    Nanoseconds check_at_ = kNever;
    List<VerbsListener> interrupted_;
    std::array<ibv_wc, kBatch> batch_;
    size_t stashed_ = 0;  // completions in batch_ that arm() found
    uint32_t turns_ = 0;
    bool woken_ = false;  // the thread slept: poll the epoll descriptor
    Nanoseconds earliest_ = kNever;
    std::vector<Entry> entries_;
    std::vector<uint32_t> free_entries_;
    List<VerbsConnection> finished_;
};

}  // namespace wss::fabric::verbs
