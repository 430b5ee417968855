// SPDX-License-Identifier: Apache-2.0
// VerbsConnection: one reliable-connected queue pair and its connection manager id.
//
// Life: connecting side   kLookingUp → kResolvingAddress → kResolvingRoute → kConnecting → kEstablished →
//                         kClosing → kClosed; the next address of the host starts at kResolvingAddress again.
//                       From kResolvingRoute on, it uses a device.
//       accepting side    kRequested (post receives) → kAccepting → kEstablished → kClosing → kClosed
// Every state may change to kClosing, and kClosing only to kClosed, with the last call to the handler.
//
// Closing (F5). The queue pair moves to the error state, in which the device completes all posted requests as
// flushed. Each receive has a completion of its own. The send queue, in which unsignalled requests may have
// none, gets a *marker* after all other requests: its completion shows that the queue is drained. If a device
// does not flush within kDrainMax, the queue pair is destroyed and the remaining entries of the rings are
// reported as flushed. A connection that has been drained in time then waits up to kGoodbyeMax for the peer's
// disconnect message, because our disconnect message, if lost, is repeated only while the id lives.
//
// Thread-safety: a connection belongs to the poller's thread. Ownership: the user destroys it after the last
// call.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/verbs/binding.h"
#include "lib/fabric/verbs/handles.h"
#include "lib/fabric/verbs/poller.h"
#include "lib/fabric/verbs/take_watch.h"

namespace wss::fabric::verbs {

class VerbsConnection final : public Connection, public CmHandler, public ListNode<> {
  public:
    static Result<std::unique_ptr<Connection>> connect(VerbsPoller& poller, const Address& address,
                                                       std::span<const std::byte> data,
                                                       const ConnectionOptions& options,
                                                       ConnectionHandler& handler);
    // The values that the connecting peer's request contains.
    struct Offer {
        uint8_t initiator_depth = 0;      // READs that it answers
        uint8_t responder_resources = 0;  // READs that it has requested to issue
        uint32_t queue_pair = 0;          // number of the peer's queue pair; 0 on iWARP
    };
    // Takes `id` only on success.
    static Result<std::unique_ptr<Connection>> accepting(VerbsPoller& poller, CmId& id, const Offer& offer,
                                                         const ConnectionOptions& options,
                                                         ConnectionHandler& handler);
    ~VerbsConnection() override;

    Code post(std::span<const WorkRequest> requests) noexcept override;
    Code post_receives(std::span<const Receive> receives) noexcept override;
    Status accept(std::span<const std::byte> data) override;
    void close() noexcept override;
    std::string peer() const override { return peer_; }
    std::span<const std::byte> channel_binding() const noexcept override { return binding_; }

    // --- for the poller ---
    void on_cm_event(const CmEvent& event) noexcept override;
    void on_done(std::span<const ibv_wc> done) noexcept;
    Nanoseconds deadline() const { return deadline_; }
    void on_deadline() noexcept;
    void on_looked_up() noexcept;
    // The device, its port or its completion queue is lost.
    void on_lost(const Status& why) noexcept;
    bool uses(const PollerDevice& device) const noexcept { return used_ == &device; }
    uint8_t port() const noexcept { return port_; }
    bool lost_completions() const noexcept { return completions_.has_failed(); }
    void finish() noexcept;

    // Returns what the device reports. Most devices report nothing, which counts as false.
    bool writes_in_order() const noexcept {
        return qp_ != nullptr && ibv_query_qp_data_in_order(qp_, IBV_WR_RDMA_WRITE, 0) == 1;
    }

  private:
    enum class State : uint8_t {
        kLookingUp,  // looking up the host name
        kResolvingAddress,
        kResolvingRoute,
        kConnecting,
        kRequested,
        kAccepting,
        kEstablished,
        kClosing,
        kClosed,
    };
    // An entry of the send queue. `op` determines the meaning of a failure. With `report`, the user also gets
    // the completion of a success.
    struct SendSlot {
        uint64_t cookie = 0;
        Op op = Op::kSend;
        bool report = false;
        bool marker = false;
    };

    VerbsConnection(VerbsPoller& poller, const ConnectionOptions& options, ConnectionHandler& handler);
    // Begins to use the device that `id` is bound to.
    Status use_device(rdma_cm_id& id);
    void leave_device() noexcept;
    Status check_options(const Device& device) const;
    Status create_queues(rdma_cm_id* id);
    Status take_place();
    Status start(const Address& address, std::span<const std::byte> data);
    Status look_up(const Address& address);
    Status dial() noexcept;
    // Called after an address could not be reached. Dials the next one, or fails.
    void try_next(Status why) noexcept;
    rdma_conn_param parameters(std::span<const std::byte> data, uint8_t initiator_depth,
                               uint8_t responder_resources) const;
    void shorten_receiver_wait() noexcept;
    void set_deadline(Nanoseconds deadline);
    void bind(uint32_t peer_queue_pair) noexcept;

    void on_address_resolved() noexcept;
    void on_route_resolved() noexcept;
    void on_rejected(const CmEvent& event) noexcept;
    void establish(std::span<const std::byte> data) noexcept;
    void on_connected(const CmEvent& event) noexcept;
    void check_taking() noexcept;
    // Connecting failed. On the accepting side this is an ordinary close.
    void fail(Status why) noexcept;
    void begin_close(Status why) noexcept;
    void stop_queues(bool connected) noexcept;
    bool post_marker() noexcept;
    bool drained() const noexcept;
    void advance_close() noexcept;
    void give_up_draining() noexcept;
    size_t take_flushed(std::span<Completion> flushed) noexcept;
    void broken(int error) noexcept;

    Code check(std::span<const WorkRequest> requests) const noexcept;
    void post_chain(std::span<const WorkRequest> requests) noexcept;
    void post_receive_chain(std::span<const Receive> receives) noexcept;
    bool take_send(const ibv_wc& done, Completion& completion) noexcept;
    void take_receive(const ibv_wc& done, Completion& completion) noexcept;
    void take_cause(CompletionStatus status, const ibv_wc& done) noexcept;

    // Members of the datapath. Sequences count without limit (modulo 2^32). The index in a ring is sequence &
    // mask.
    ibv_qp* qp_ = nullptr;          // owned by id_
    const Device* keys_ = nullptr;  // translates lkeys; set with qp_
    State state_ = State::kResolvingAddress;
    uint32_t tag_ = 0;               // the tag of place_
    uint32_t send_next_ = 0;         // sequence of the next work request
    uint32_t send_done_ = 0;         // all requests before it are completed
    uint32_t send_unsignalled_ = 0;  // posted since the last signalled one
    uint32_t send_awaited_ = 0;      // sequence after the last signalled one
    uint32_t receive_next_ = 0;
    uint32_t receive_done_ = 0;
    uint32_t signal_every_ = 1;
    uint32_t send_mask_ = 0;
    uint32_t receive_mask_ = 0;
    uint32_t receive_segments_max_ = 0;
    std::vector<SendSlot> sends_;
    std::vector<uint64_t> receives_;
    ConnectionHandler& handler_;

    // Members of setup and closing.
    VerbsPoller& poller_;
    const ConnectionOptions options_;
    const Caps& caps_;  // the fabric's
    VerbsPoller::Place place_;
    PollerDevice* used_ = nullptr;  // exists as long as completions_
    uint8_t port_ = 0;
    CompletionQueues::Share completions_;  // outlives the queue pair, which id_ owns
    CmId id_;
    Nanoseconds deadline_ = kNever;
    std::string peer_;
    std::string what_;                        // "rdma://10.0.0.1:4711", for error texts
    std::shared_ptr<Resolution> resolution_;  // exists while the host name is being looked up
    std::vector<SocketAddress> addresses_;    // still to be tried, the next one last
    Nanoseconds connect_by_ = kNever;         // one limit for all addresses together
    std::array<std::byte, 256> data_;  // private data: first of our request, later of the peer's reject
    uint8_t data_length_ = 0;
    Offer offer_;
    Binding
        binding_{};  // valid on the connecting side once established, on the accepting side from the start
    TakeWatch take_watch_;
    bool connector_ = false;
    bool is_handed_over_ = false;  // the user has this object
    bool refused_ = false;         // the last call is on_refused
    bool marker_done_ = false;
    bool await_goodbye_ = false;  // our disconnect is sent; the peer's is due
    bool goodbye_received_ = false;
    Status why_;
};

}  // namespace wss::fabric::verbs
