// SPDX-License-Identifier: Apache-2.0
// Sessions: who is connected. A session is a nexus, the pair of an initiator port and a target port, with its
// channels, which may be on several reactors.
//
// The table belongs to reactor 0, which also hears all connect requests. It talks to channels by tasks
// posted to their reactors, and they report their end by a task posted back.
//
// Rules
//  N1  A SINGLE login of a nexus that is known ends all its channels and is granted only when the last of
//      them is gone: connection closed and storage writes done. So no write of the old session can land after
//      the new one has begun (fencing). When that takes longer than Options::fence_timeout the login is
//      refused with a reason, and the next try finds the old session still closing.
//  N2  The epoch grows with every login; a MULTI login joins the session of its nexus, whatever its epoch.
//  N3  A session whose channels were all silent for keepalive_ms is closed, when keep-alive was granted.
//      Where it was not, a session that is silent for kSilenceProbe is probed, and for kSilenceMax closed.
//      A channel whose peer completes nothing that was posted for take_timeout is closed.
//  N4  Where secrets are wanted, a connection is a stranger until it has proven who it is. It has a channel,
//      which takes nothing but authentication, and no session. Only then is it a login as in N1 and N2.
//      A nexus belongs to the name that opened it: others can neither end its session nor join it.
//  N5  Strangers cannot keep others out: kPendingAuthMax authentications may be pending, and a new one evicts
//      another (lib/fabric/stranger_places.h).
//  N6  A channel that was refused after its proof is told why, and closed when it does not take note of it in
//      drain_timeout, when kRefusedMax others wait as well, or when the target ends.
//  N7  A name and a source have a bounded number of sessions (session_places.h).
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/stranger_places.h"
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

// What the registry and a channel know of each other. Outlives both.
struct ChannelRecord {
    // Immutable once the channel is made.
    uint64_t epoch = 0;
    size_t worker = 0;
    size_t lane = 0;
    wire::PortId initiator{};
    std::string peer;
    std::string source;  // of the peer
    ChannelTerms terms;
    // Of a channel that has to authenticate: the login as it came, and what is known.
    std::array<std::byte, sizeof(wss_srp_login_req)> login_request{};
    std::shared_ptr<const auth::SecretBook> secrets;
    // Set before the session admits the channel, which is at once where nobody authenticates.
    std::string name;                     // that the initiator has proven; else its port id
    Secret secret;                        // with which; reactor 0's
    std::atomic<uint64_t> session_id{0};  // 0: its authentication is pending
    // Written by the channel's reactor, read by anyone.
    Counters counters;
    std::atomic<int64_t> last_heard_ns{0};
    std::atomic<int64_t> draining_since_ns{0};  // 0: it does not drain
    std::atomic<int64_t> sending_since_ns{0};   // the peer has completed nothing since; 0: nothing is posted
    std::atomic<bool> established{false};
    std::atomic<bool> speaks{false};  // notifies the initiator, for all channels of the session
    // The channel's reactor only; nullptr before it is made and after it died.
    Channel* channel = nullptr;
};

struct SessionInfo {
    std::string initiator;  // port id, hexadecimal
    std::string name;       // proven, or the port id again
    bool authenticated = false;
    std::vector<unsigned> secrets;  // which of its name's its channels have proven, from 1; ascending
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
        std::shared_ptr<const auth::SecretBook> secrets;  // nullptr: nobody authenticates
        uint32_t boot_id = 0;                             // told to initiators; see Service::Options
    };
    SessionTable(Service& service, reactor::Reactor& reactor, Options options);
    ~SessionTable();
    SessionTable(const SessionTable&) = delete;
    SessionTable& operator=(const SessionTable&) = delete;

    // All of these on reactor 0.
    void connect_requested(size_t fabric_index, std::unique_ptr<fabric::ConnectRequest> request);
    // A channel whose authentication was pending has proven to be `name`'s, with that secret.
    void authenticated(const std::shared_ptr<ChannelRecord>& record, const std::string& name,
                       const Secret& secret);
    // Closes sessions that proved a secret which the new book does not have for their name; returns how
    // many. Not between nullptr and something.
    size_t set_secrets(std::shared_ptr<const auth::SecretBook> secrets);
    // Ends the sessions of this name or port id: commands in flight are finished, the initiator may log in
    // again. Returns how many.
    size_t end(const std::string& initiator);
    AuthFailures& auth_failures() noexcept { return failures_; }  // any thread
    void channel_gone(const std::shared_ptr<ChannelRecord>& record);
    // Refuses new logins, lets commands in flight end, closes all. `done` on reactor 0, once.
    void stop(std::function<void()> done);
    std::vector<SessionInfo> list() const;
    CounterTotals totals() const;
    const SessionUse& use() const noexcept { return places_.use(); }
    size_t count() const noexcept { return sessions_.size(); }

  private:
    // A login that is not granted yet: a connect request, or (N4) a channel that authenticates.
    struct Pending {
        std::unique_ptr<fabric::ConnectRequest> request;
        std::shared_ptr<ChannelRecord> record;
        wire::LoginRequest login;
        ChannelTerms terms;
        size_t fabric_index = 0;
        Nanoseconds deadline;
        fabric::StrangerPlaces::Place place = 0;  // N5; left when its channel is gone, or has proven itself
    };
    struct Session {
        uint64_t id = 0;
        wire::PortId initiator{}, target{};
        std::string name;  // proven; empty where nobody authenticates
        uint64_t epoch = 0;
        ChannelTerms terms;  // of its first channel
        std::string fabric;
        std::string source;  // of its first channel
        std::vector<std::shared_ptr<ChannelRecord>> channels;
        CounterTotals past;  // of channels that are gone
        Nanoseconds since;
        Nanoseconds probed;  // when, last
        bool closing = false;
        std::optional<Pending> successor;  // waits for the end of this one (N1)
        std::string counted_name() const { return name.empty() ? to_string(initiator) : name; }
    };
    using Sessions = std::list<Session>;

    void refuse(Pending& pending, const Refusal& why);
    void refuse_proven(const std::shared_ptr<ChannelRecord>& record, const Refusal& why);
    void begin_authentication(Pending pending);
    void unproven_gone(const std::shared_ptr<ChannelRecord>& record);
    std::shared_ptr<ChannelRecord> make_record(const Pending& pending, uint64_t epoch);
    uint32_t boot_id() const noexcept;
    void accept(Pending& pending, const std::shared_ptr<ChannelRecord>& record,
                wire::MultiChannelResult result);
    void check_strangers(Nanoseconds now, bool close_all);
    bool is_empty() const noexcept { return sessions_.empty() && unproven_.empty() && refused_.empty(); }
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
    void close_channels(Session& session, const char* why, bool gently);
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
    std::list<Pending> unproven_;                                     // N4, oldest first; the deadline counts
    fabric::StrangerPlaces strangers_{kPendingAuthMax, kEvictedMax};  // of unproven_
    struct Refused {
        std::shared_ptr<ChannelRecord> record;
        Nanoseconds deadline;
    };
    std::list<Refused> refused_;  // N6, oldest first
    SessionPlaces places_;
    ReceiveBudget receives_;
    std::shared_ptr<const auth::SecretBook> secrets_;
    AuthFailures failures_;
    CounterTotals past_;  // of sessions that are gone
    uint64_t next_epoch_;
    uint64_t next_session_id_ = 1;
    size_t next_worker_ = 0;
    std::function<void()> stopped_;  // set once stopping
    bool stopping_ = false;
    Nanoseconds stop_gently_until_;
    reactor::Timer timer_;
};

}  // namespace wss::block
