// SPDX-License-Identifier: Apache-2.0
// ClientId: how a session gets its client id, and another one when it must: a partition that was restarted
// has leased it to another client, or the own clock was set back so far that the id's timestamps are used up.
//
// All partitions know a client by one id: the links change theirs together, and only when nothing that is
// under way carries the old one. A partition that lies about ids, or forgets them, disturbs the others seldom
// (kLeaseAgain) and not for long (kAdoptLimit).
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

    // False: there is none yet, or it is about to change: what carries one waits.
    bool is_usable() noexcept;
    // `link` has greeted with the id that its partition knows. False: with one too many; it connects again.
    bool greeted(Link& link, Nanoseconds now) noexcept;
    void refused(Link& link, Nanoseconds now) noexcept;
    bool is_changing() const { return lessor_ != nullptr; }
    // `is_used`: something under way carries the present id. True: the change is over.
    bool change(bool is_used, Nanoseconds now) noexcept;

  private:
    // A partition that refuses the client's id may lease it another one so often. All links change with it.
    static constexpr Nanoseconds kLeaseAgain = from_s(10);
    static constexpr Nanoseconds kAdoptLimit = from_s(1);
    struct SecondLease {
        Nanoseconds again{};  // not before
        bool asked = false;
    };

    void share(uint32_t id) noexcept;
    void renew(std::string_view why) noexcept;
    SecondLease& second_lease(Link& link);

    HybridClock& clock_;
    Links& links_;
    std::vector<SecondLease> leases_;  // by partition
    Link* lessor_ = nullptr;  // has leased another id, which becomes ours when the present one is not used
    Nanoseconds adopt_by_{};  // … or not at all
};

}  // namespace wss::kv
