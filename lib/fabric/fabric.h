// SPDX-License-Identifier: Apache-2.0
// The fabric interface: the semantics of RDMA over any transport.
//
// Terms. A *fabric* is the network devices (or their emulation) that one process uses for an address. A
// *poller* is the completion queues and event channel of one thread. A *connection* is a reliable, ordered
// pair of queues between two processes. A *region* is memory registered with every device of a fabric. The
// pair {remote_address, rkey} lets a connected peer read or write it without the local CPU. Each device has
// an rkey of its own, which is valid only for peers that are connected through that device.
//
// There are five implementations: `verbs` (RDMA hardware or soft RoCE), `tcp` (the peer's poller executes
// one-sided operations), `tls` (tcp under TLS 1.3), `shm` (same host) and `sim` (one thread, simulated time,
// random numbers from a seed). Code outside lib/fabric includes no header of an implementation, except those
// of tls for credentials and contexts. Only tests include other headers. Differences between implementations
// are data (Caps). The conformance suite (tests/conformance) tests the rules below.
//
// Rules
//  F1  Operations of one connection take effect in posting order, except that a later operation may overtake
//      a READ. A SEND or WRITE_IMMEDIATE is delivered to the peer after all data of earlier WRITEs of that
//      connection is placed.
//  F2  A posted buffer belongs to the fabric until its completion is delivered. An unsignalled operation
//      completes with the next signalled one of the same connection. If it fails, its completion is delivered
//      although it is unsignalled. post() copies the payload of an operation with `inlined` set.
//  F3  A send that finds no receive posted waits for one. A slow peer is not an error, but verbs closes the
//      connection after 15 to 30 s in which the peer accepted none of what was sent. For tcp and tls, a peer
//      that reads nothing while its buffers are full has vanished (F6).
//  F4  A refused remote access (bad key, out of bounds, no permission, revoked region) never touches memory.
//      The operation completes with kRemoteAccess and the connection closes on both sides.
//  F5  When a connection closes, for whatever reason, everything still posted completes with kFlushed (the
//      first one to fail carries the cause). Then on_closed() is called, once, as the last call for that
//      connection. The Connection may be destroyed only after on_closed() or on_refused(): its destructor
//      asserts this.
//  F6  A vanished peer is detected by a pending operation, or within Caps::dead_peer_ms where the fabric can
//      detect it without one. Users that need earlier detection send keep-alives.
//  F7  post() is all or nothing and never blocks. It never allocates, except in sim. kExhausted means that
//      the send queue does not have enough room.
//
// Thread-safety: a Poller, its connections and listeners belong to one thread. Fabrics and Regions may be
// created and destroyed on any thread. Handlers are called only from within Poller::poll().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/fabric/address.h"
#include "lib/reactor/reactor.h"

namespace wss::fabric {

class Connection;
class Poller;

// Devices of one fabric that can be open at the same time.
constexpr size_t kDevicesMax = 16;
constexpr size_t kAnyDevice = kDevicesMax;

// Access of the peer to a region. Local reads and writes are always allowed.
enum class Access : uint8_t { kLocal = 0, kRemoteRead = 1, kRemoteWrite = 2, kRemoteReadWrite = 3 };

// Registered memory. Destroying it revokes remote access at once (F4 from then on). Peers need
// `remote_address` and the `rkey` of the device that they are connected through. Local segments need `lkey`,
// which is valid for all devices of the fabric.
class Region {
  public:
    virtual ~Region() = default;
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    std::span<std::byte> bytes() const { return bytes_; }
    uint64_t remote_address() const { return remote_address_; }
    // `device` is Connection::device() of the peer's connection.
    uint32_t rkey(size_t device) const { return rkeys_[device].load(std::memory_order_relaxed); }
    uint32_t lkey() const { return lkey_; }

  protected:
    Region() = default;
    void set_rkey(size_t device, uint32_t key) { rkeys_[device].store(key, std::memory_order_relaxed); }
    std::span<std::byte> bytes_;
    uint64_t remote_address_ = 0;
    uint32_t lkey_ = 0;

  private:
    std::array<std::atomic<uint32_t>, kDevicesMax> rkeys_{};
};

// A contiguous part of local registered memory.
struct Segment {
    std::byte* address = nullptr;
    uint32_t length = 0;
    uint32_t lkey = 0;
};

struct RemoteAddress {
    uint64_t address = 0;
    uint32_t rkey = 0;
};

enum class Op : uint8_t {
    kSend,
    kSendInvalidate,  // Caps::send_invalidate; revokes the peer's region `immediate` on delivery
    kWrite,
    kWriteImmediate,  // Caps::write_immediate; consumes a receive of the peer, which gets `immediate`
    kRead,
};

struct WorkRequest {
    Op op = Op::kSend;
    bool signalled = true;
    bool inlined = false;               // post() copies the payload (≤ inline_max) and ignores the lkeys
    uint64_t cookie = 0;                // returned in the completion
    std::span<const Segment> segments;  // need not outlive post()
    RemoteAddress remote;               // kWrite, kWriteImmediate, kRead
    uint32_t immediate = 0;             // kWriteImmediate: value; kSendInvalidate: rkey
};

struct Receive {
    uint64_t cookie = 0;
    std::span<const Segment> segments;
};

enum class CompletionStatus : uint8_t {
    kOk,
    kFlushed,       // the connection closed first; unknown whether the peer executed the request
    kRemoteAccess,  // F4
    kLocalAccess,   // lkey or length of a local segment is wrong
    kLength,        // message larger than the receive
    kPeerLost,      // no answer within the retries of the fabric
    kOther,
};
std::string_view to_string(CompletionStatus status);

enum class CompletionKind : uint8_t { kSend, kWrite, kRead, kReceive, kReceiveImmediate };

struct Completion {
    uint64_t cookie = 0;
    CompletionKind kind = CompletionKind::kSend;  // meaningless unless status is kOk
    CompletionStatus status = CompletionStatus::kOk;
    bool invalidated = false;  // receive: the peer revoked our region `immediate`
    uint32_t length = 0;       // receive: bytes; kReceiveImmediate: bytes that were written
    uint32_t immediate = 0;
};

// Receives the events of a connection. It must outlive the connection.
class ConnectionHandler {
  public:
    virtual ~ConnectionHandler() = default;
    // The connection is ready for data. `data` is the acceptor's private data (empty on the accepting side),
    // valid during the call. The connecting side may post receives starting with this call, the accepting
    // side after create().
    virtual void on_established(Connection& connection, std::span<const std::byte> data) noexcept = 0;
    // Connecting failed. `data` is the private data of a reject, and empty without a reject. This is the last
    // call.
    virtual void on_refused(Connection& connection, const Status& why,
                            std::span<const std::byte> data) noexcept = 0;
    virtual void on_completions(Connection& connection, std::span<const Completion> completions) noexcept = 0;
    // This is the last call (F5).
    virtual void on_closed(Connection& connection, const Status& why) noexcept = 0;
};

// Limits of a connection as the device and the peer granted them. They may be less than ConnectionOptions
// requested.
struct ConnectionLimits {
    uint32_t inline_max = 0;         // bytes of an inlined payload
    uint32_t segments_max = 1;       // segments of one work request
    uint32_t read_segments_max = 1;  // segments of one READ
    // READs in flight. Further READs wait in the send queue, and so do all requests that are posted after
    // them.
    uint32_t read_depth = 0;
};

class Connection {
  public:
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // Returns a code without a text, because this is the datapath: kOk, kExhausted (F7), kInvalid (too many
    // segments, too long, or not supported) or kClosed.
    virtual Code post(std::span<const WorkRequest> requests) noexcept = 0;
    virtual Code post_receives(std::span<const Receive> receives) noexcept = 0;
    // Executes a READ or WRITE synchronously. This is possible only if this CPU can access the peer's memory
    // itself (shm) and the operation overtakes no posted one. A WRITE becomes visible to the peer before any
    // later store of this thread. There is no completion. Returns false if nothing was done. The caller must
    // then use post().
    virtual bool move_now(Op, const Segment&, RemoteAddress) noexcept { return false; }
    // Accepts the connect request. Called only on the accepting side, once, after create().
    virtual Status accept(std::span<const std::byte> data) = 0;
    // Begins to close. The last call, on_closed() or on_refused(), follows from a later poll(). No effect if
    // the connection is already closing.
    virtual void close() noexcept = 0;
    // For people and access lists: "10.0.0.1:4711", or pid and uid of the peer of a socket path.
    virtual std::string peer() const = 0;
    // Final once on_established() has been called, as is device().
    const ConnectionLimits& limits() const noexcept { return limits_; }
    // The device that the connection uses. The number is meaningful only within the fabric.
    size_t device() const noexcept { return device_; }
    // A value that both ends of this connection have, and that no other connection has. A login proof covers
    // it, so that the proof is not valid on another connection. tls: the exporter of RFC 9266, which only the
    // two ends can compute. verbs: addresses and queue pair numbers, which are public. Empty for tcp,
    // where the ends may see different addresses (NAT), and for shm, where both ends trust each other. Valid
    // from create() on the accepting side, from on_established() on the connecting side.
    virtual std::span<const std::byte> channel_binding() const noexcept { return {}; }
    // On the accepting side: the name that the peer has proven with a pre-shared key (tls), or "".
    virtual std::string_view peer_name() const noexcept { return {}; }
    // Sets whether the peer may READ and WRITE registered memory. If it may not, every such request is
    // refused (F4), whatever keys the peer has. The default is true. Returns false, without an effect, if the
    // fabric cannot refuse them for one connection.
    virtual bool let_peer_access_memory(bool) noexcept { return false; }

  protected:
    Connection() = default;
    ConnectionLimits limits_;
    size_t device_ = 0;
};

struct ConnectionOptions {
    uint32_t send_depth = 128;     // work requests outstanding
    uint32_t receive_depth = 128;  // receives posted
    uint32_t send_segments = 2;    // segments of one work request
    uint32_t receive_segments = 1;
    uint32_t inline_bytes = 64;  // requested
    uint32_t read_depth = 16;    // READs in flight, each way; requested
    bool posts_reads = true;     // true: refuse a peer that allows no READs
    Nanoseconds connect_timeout = from_s(5);
    // Connect only through this device of the fabric, because the peer uses rkeys of that device.
    size_t device = kAnyDevice;
};

// A peer's request to connect. Destroying the request unanswered rejects it without data.
class ConnectRequest {
  public:
    virtual ~ConnectRequest() = default;
    virtual std::span<const std::byte> data() const = 0;
    virtual std::string peer() const = 0;
    // Creates the connection on `poller`. If that poller belongs to another thread, call this on that thread.
    // Then post receives and call Connection::accept().
    virtual Result<std::unique_ptr<Connection>> create(Poller& poller, const ConnectionOptions& options,
                                                       ConnectionHandler& handler) = 0;
    virtual void reject(std::span<const std::byte> data) noexcept = 0;

  protected:
    ConnectRequest() = default;
};

class ListenHandler {
  public:
    virtual ~ListenHandler() = default;
    virtual void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept = 0;
};

// Destroying it stops listening. The connections that it accepted continue.
class Listener {
  public:
    virtual ~Listener() = default;
    // The address that it listens on. If port 0 was requested, it has the port that the system assigned.
    virtual Address address() const = 0;
};

// Completion queue and event channel of one thread. A reactor polls it as a Source. It must outlive its
// connections.
class Poller : public reactor::Source {
  public:
    virtual Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) = 0;
    // Returns at once. on_established() or on_refused() follows. Connecting takes at most
    // options.connect_timeout. `data` is at most Caps::connect_data_max bytes.
    virtual Result<std::unique_ptr<Connection>> connect(const Address& address,
                                                        std::span<const std::byte> data,
                                                        const ConnectionOptions& options,
                                                        ConnectionHandler& handler) = 0;
};

struct Caps {
    std::string_view name;  // "verbs", "tcp", "tls", "shm", "sim"
    bool write_immediate = false;
    bool send_invalidate = false;
    bool read_sink_remote_write = false;  // iWARP: the local target of a READ needs Access::kRemoteWrite
    uint32_t segments_max = 1;
    uint32_t read_depth_max = 1;
    uint32_t message_max = 0;        // bytes of one SEND
    uint32_t transfer_max = 0;       // bytes of one READ or WRITE
    uint32_t connect_data_max = 56;  // private data that RDMA/CM leaves to its user in a request
    uint32_t accept_data_max = 196;
    uint32_t reject_data_max = 148;
    uint32_t dead_peer_ms = 0;  // F6; 0: detected only by a pending operation
};

class Fabric {
  public:
    virtual ~Fabric() = default;
    Fabric(const Fabric&) = delete;
    Fabric& operator=(const Fabric&) = delete;

    // What every device of the fabric offers.
    virtual const Caps& caps() const noexcept = 0;
    virtual Result<std::unique_ptr<Poller>> create_poller() = 0;
    // Allocates page-aligned, zeroed memory owned by the fabric. It is the fastest kind of memory, and in shm
    // the only kind that a peer can load from and store to.
    virtual Result<std::unique_ptr<Region>> allocate(size_t bytes, Access access) = 0;
    // Registers memory of the caller, which must outlive the region.
    virtual Result<std::unique_ptr<Region>> register_memory(std::span<std::byte> memory, Access access) = 0;

  protected:
    Fabric() = default;
};

}  // namespace wss::fabric
