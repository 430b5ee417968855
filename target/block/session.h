// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions of the target. A session is a nexus with its channels, which may be on several
// reactors. A nexus is the pair of an initiator port and a target port.
//
// The table belongs to reactor 0, which also receives all connect requests. It posts tasks to the reactors of
// channels. Channels report their end by a task posted back.
//
// Rules
//  N1  A SINGLE login of a nexus that has a session ends all channels of that session. The login is granted
//      only when the last of them is gone: its connection is closed, and its commands in storage and in the
//      cache have ended. So no write of the old session can reach storage after the new session has begun
//      (fencing). Commands that wait in the cache and have not begun end at once (Gateway::end_cancelled()).
//      If the rest takes longer than Options::fence_timeout, the login is refused with a reason. A retry
//      finds the old session still closing.
//  N2  Each login that opens a session gets a larger epoch. A MULTI login joins the session of its nexus and
//      gets its epoch. It is refused if that session was replaced while the authentication was pending.
//  N3  With keep-alive, a session whose channels were all silent for keepalive_ms is closed. Without it, a
//      session is probed after silence_probe of silence, and closed after silence_max. A channel whose peer
//      completes none of the posted work requests for take_timeout is closed.
//  N4  If secrets are configured, the authentication of a new connection is pending until it has proven its
//      name. It has a channel, which accepts only authentication messages, and no session. After the proof,
//      the connection is handled as a login by N1 and N2. A nexus belongs to the name that opened it: other
//      names can neither end its session nor join it.
//  N5  Unauthenticated peers cannot keep others out: at most pending_auth_max authentications are pending,
//      and a new one evicts another (lib/fabric/pending_places.h). Until its proof, a channel has kAuthSlots
//      receive slots, and takes nothing of the receive budget.
//  N6  A channel that was refused after its proof receives the reason. It is closed if it has not ended
//      within drain_timeout, when kRefusedMax newer ones wait as well, or when the target stops.
//  N7  The number of sessions of a name, and of a source, is bounded (session_places.h).
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/pending_places.h"
#include "lib/reactor/reactor.h"
#include "lib/wire/srp.h"
#include "target/auth/auth.h"
#include "target/block/auth_failures.h"
#include "target/block/counters.h"
#include "target/block/limits.h"
#include "target/block/login.h"
#include "target/block/receive_budget.h"
#include "target/block/session_places.h"

namespace wss::block {

class Channel;
class Service;
class Worker;

// State that the session table and a channel share. It lives as long as one of them refers to it.
struct ChannelRecord {
    // Immutable once the channel is created.
    uint64_t epoch = 0;
    size_t worker = 0;
    size_t lane = 0;
    wire::PortId initiator{};
    std::string peer;
    std::string source;  // of the peer
    ChannelTerms terms;
    // Belong to reactor 0.
    fabric::PendingPlaces::Place place = 0;  // N5; 0: its authentication is not pending
    bool has_receives = false;               // its receive memory is counted in the budget
    // For a channel that must authenticate: the login request as received, and the secrets for the check.
    std::array<std::byte, sizeof(wss_srp_login_req)> login_request{};
    std::shared_ptr<const auth::SecretBook> secrets;
    uint64_t losses_at_login = 0;  // cache::StorageNodes::losses()
    // Set before the session admits the channel. Without authentication, that happens immediately.
    std::string name;                     // proven by the initiator; without authentication its port id
    Secret secret;                        // used for the proof; belongs to reactor 0
    std::atomic<uint64_t> session_id{0};  // 0: its authentication is pending
    // Read by any thread. Written by the channel's reactor, unless noted.
    Counters counters;
    std::atomic<int64_t> last_heard_ns{0};
    std::atomic<int64_t> draining_since_ns{0};  // 0: not draining
    // Since this time the peer has completed nothing; 0 if nothing is posted. Reactor 0 resets it after
    // take_timeout.
    std::atomic<int64_t> sending_since_ns{0};
    std::atomic<bool> established{false};
    std::atomic<bool> speaks{false};  // sends the notifications of the session; written by reactor 0
    // Used only by the channel's reactor. nullptr before the channel is created and after it is destroyed.
    Channel* channel = nullptr;
};

struct SessionInfo {
    std::string initiator;  // port id, hexadecimal
    std::string name;       // proven; without authentication the port id
    bool authenticated = false;
    std::vector<unsigned> secrets;  // those in use, by position among the name's (from 1); ascending
    std::string target;
    std::vector<std::string> peers;  // one per channel
    std::string fabric;
    uint64_t epoch = 0;
    uint32_t caps = 0;
    bool extended = false;  // a WSS peer
    CounterTotals counters;
};

class SessionTable {
  public:
    struct Options {
        LoginLimits limits;
        uint64_t epoch_base = 0;
        Nanoseconds fence_timeout = kFenceTimeout;
        Nanoseconds drain_timeout = kDrainTimeout;
        Nanoseconds silence_probe = kSilenceProbe;
        Nanoseconds silence_max = kSilenceMax;
        Nanoseconds take_timeout = kTakeTimeout;
        size_t pending_auth_max = kPendingAuthMax;
        std::shared_ptr<const auth::SecretBook> secrets;  // nullptr: no authentication
        uint32_t boot_id = 0;                             // sent to initiators; see Service::Options
    };
    SessionTable(Service& service, reactor::Reactor& reactor, Options options);
    ~SessionTable();
    SessionTable(const SessionTable&) = delete;
    SessionTable& operator=(const SessionTable&) = delete;

    // All methods must be called on reactor 0, unless noted.
    void connect_requested(size_t fabric_index, std::unique_ptr<fabric::ConnectRequest> request);
    // A channel with pending authentication has proven `name` with `secret`.
    void authenticated(const std::shared_ptr<ChannelRecord>& record, const std::string& name,
                       const Secret& secret);
    // Closes sessions whose secret the new book does not list for their name; returns their number. Does not
    // switch authentication on or off: nullptr may replace only nullptr.
    size_t set_secrets(std::shared_ptr<const auth::SecretBook> secrets);
    // Ends the sessions of this name or port id: commands in flight are completed, and the initiator may log
    // in again. Returns the number of sessions.
    size_t end(const std::string& initiator);
    AuthFailures& auth_failures() noexcept { return failures_; }  // any thread
    void channel_gone(const std::shared_ptr<ChannelRecord>& record);
    // Refuses new logins, waits for commands in flight, closes all sessions. `done` is called once, on
    // reactor 0.
    void stop(std::function<void()> done);
    std::vector<SessionInfo> list() const;
    CounterTotals totals() const;
    const SessionUse& use() const noexcept { return places_.use(); }
    size_t count() const noexcept { return sessions_.size(); }

  private:
    // A login that is not yet granted: a connect request, or (N4) a channel with pending authentication.
    struct Pending {
        std::unique_ptr<fabric::ConnectRequest> request;
        std::shared_ptr<ChannelRecord> record;
        wire::LoginRequest login;
        ChannelTerms terms;
        size_t fabric_index = 0;
        Nanoseconds deadline;
    };
    struct Session {
        uint64_t id = 0;
        wire::PortId initiator{}, target{};
        std::string name;  // proven; empty without authentication
        uint64_t epoch = 0;
        ChannelTerms terms;  // terms of its first channel
        std::string fabric;
        std::string source;  // source of its first channel
        std::vector<std::shared_ptr<ChannelRecord>> channels;
        CounterTotals past;  // totals of channels that are gone
        Nanoseconds since;
        Nanoseconds probed;  // time of the last probe
        bool closing = false;
        std::optional<Pending> successor;  // waits for the end of this one (N1)
        std::string counted_name() const { return name.empty() ? to_string(initiator) : name; }
    };
    using Sessions = std::list<Session>;

    void refuse(Pending& pending, const Refusal& why);
    void refuse_proven(const std::shared_ptr<ChannelRecord>& record, const Refusal& why);
    void begin_authentication(Pending pending);
    void pending_auth_gone(const std::shared_ptr<ChannelRecord>& record);
    std::shared_ptr<ChannelRecord> make_record(const Pending& pending, uint64_t epoch);
    uint32_t boot_id() const noexcept;
    void accept(Pending& pending, const std::shared_ptr<ChannelRecord>& record,
                wire::MultiChannelResult result);
    void check_pending_auth(Nanoseconds now, bool close_all);
    bool is_empty() const noexcept { return sessions_.empty() && pending_auth_.empty() && refused_.empty(); }
    void finish_stop();
    Sessions::iterator find(const wire::LoginRequest& login);
    std::optional<Refusal> refuse_place(const Pending& pending);
    void log_in(Pending pending);
    void join(Pending pending);
    void start_session(Pending pending, wire::MultiChannelResult result);
    void add_channel(Session& session, Pending pending, wire::MultiChannelResult result);
    void fence(Session& session, Pending pending);
    // Posted to the channel's reactor.
    void close_soon(const std::shared_ptr<ChannelRecord>& record, const char* why);
    void close_channels(Session& session, const char* why);
    // Lets the channels complete their commands in flight, and sends `reason` to the initiator.
    void drain_channels(Session& session, const char* why, wss_srp_logout_reason reason);
    void session_gone(Sessions::iterator session);
    static void tick(void* self) noexcept;
    void check_timeouts(Session& session, Nanoseconds now);
    void check_channels(Session& session, Nanoseconds now);
    void check_silence(Session& session, Nanoseconds now);
    bool withdrawn(const std::shared_ptr<ChannelRecord>& record) const;
    void set_timer();

    // Immutable.
    Service& service_;
    reactor::Reactor& reactor_;
    const Options options_;

    Sessions sessions_;
    std::map<fabric::PendingPlaces::Place, Pending> pending_auth_;  // N4; deadline is set
    fabric::PendingPlaces pending_places_;
    struct Refused {
        std::shared_ptr<ChannelRecord> record;
        Nanoseconds deadline;
    };
    std::list<Refused> refused_;  // N6, oldest first
    SessionPlaces places_;
    ReceiveBudget receives_;
    std::shared_ptr<const auth::SecretBook> secrets_;
    AuthFailures failures_;
    CounterTotals past_;  // totals of sessions that are gone
    uint64_t next_epoch_;
    uint64_t next_session_id_ = 1;
    size_t next_worker_ = 0;
    std::function<void()> stopped_;  // callback of stop()
    bool stopping_ = false;
    Nanoseconds stop_gently_until_;
    reactor::Timer timer_;
};

}  // namespace wss::block
