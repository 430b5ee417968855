// SPDX-License-Identifier: Apache-2.0
// ClientId: obtains a session's client id, and a new one when that is necessary. A restarted partition may
// have leased the id to another client, or the session's clock may have been set back so far that the id's
// timestamps are used up.
//
// A client uses one id with all partitions. The links change it together, and only when no message in flight
// carries the old one. A partition that reports wrong ids, or forgets them, disturbs the other links only
// rarely (kLeaseAgain) and briefly (kAdoptLimit).
//
// Thread-safety: none; belongs to the session.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lib/kv/hlc.h"
#include "lib/kv/transport/link.h"

namespace wss::kv {

class ClientId {
  public:
    using Links = std::vector<std::unique_ptr<Link>>;
    ClientId(HybridClock& clock, Links& links) : clock_(clock), links_(links) {}

    // Returns false if there is no id yet, or it is about to change. Messages that carry one must then wait.
    bool is_usable() noexcept;
    // `link` has received a greeting with the id that its partition leases. Returns false if the partition
    // has leased a second id. The link then reconnects.
    bool greeted(Link& link, Nanoseconds now) noexcept;
    void refused(Link& link, Nanoseconds now) noexcept;
    bool is_changing() const { return lessor_ != nullptr; }
    // `is_used` means that a message in flight carries the current id. Returns true when the change is
    // complete.
    bool change(bool is_used, Nanoseconds now) noexcept;

  private:
    // Limits how often a partition that refuses the client's id may lease another one; all links change with
    // it.
    static constexpr Nanoseconds kLeaseAgain = from_s(10);
    static constexpr Nanoseconds kAdoptLimit = from_s(1);
    struct SecondLease {
        Nanoseconds again{};  // earliest time of the next one
        bool asked = false;
    };

    void share(uint32_t id) noexcept;
    void renew(std::string_view why) noexcept;
    SecondLease& second_lease(Link& link);

    HybridClock& clock_;
    Links& links_;
    std::vector<SecondLease> leases_;  // indexed by partition
    Link* lessor_ = nullptr;           // has leased the next id, adopted when the current one is unused
    Nanoseconds adopt_by_{};           // deadline for that
};

}  // namespace wss::kv
