// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/client_id.h"

#include <string>
#include <utility>

namespace wss::kv {

void ClientId::share(uint32_t id) noexcept {
    clock_.set_client(id);
    for (auto& link : links_) link->options().client_id = id;
}

bool ClientId::greeted(Link& link, Nanoseconds now) noexcept {
    const uint32_t leased = link.facts().client_id;
    if (clock_.client() == 0) share(leased);
    const bool was_asked = std::exchange(second_lease(link).asked, false);
    if (leased == clock_.client()) return true;
    if (was_asked) {
        lessor_ = &link;
        adopt_by_ = now + kAdoptLimit;
        return true;
    }
    // Two partitions have each leased an id at the same time.
    link.send_only(wire::KvKind::kGoodbye, 0, wire::KvDecision{});
    link.options().client_id = clock_.client();
    link.reconnect("the client already has an id");
    return false;
}

// The partition was restarted and has leased the id to another client that connected first. Request another
// id from it. The other links stay unchanged until it has leased one.
void ClientId::refused(Link& link, Nanoseconds now) noexcept {
    const bool is_ours = link.options().client_id == clock_.client();
    link.options().client_id = clock_.client();
    SecondLease& lease = second_lease(link);
    lease.asked = is_ours && now >= lease.again;
    if (!lease.asked) return;
    lease.again = now + kLeaseAgain;
    link.options().client_id = 0;
}

ClientId::SecondLease& ClientId::second_lease(Link& link) {
    leases_.resize(links_.size());
    // With one address the partition's index is not yet known.
    return leases_[link.options().partition == UINT32_MAX ? 0 : link.options().partition];
}

// Switches when no message in flight carries the current id. New requests wait meanwhile (is_usable), but not
// beyond adopt_by_: a partition that does not answer would otherwise block requests to the others.
bool ClientId::change(bool is_used, Nanoseconds now) noexcept {
    if (is_used && lessor_->ready() && now < adopt_by_) return false;
    Link& lessor = *std::exchange(lessor_, nullptr);
    share(lessor.ready() && !is_used ? lessor.facts().client_id : clock_.client());
    for (auto& link : links_)
        if (link->ready() && link->facts().client_id != clock_.client())
            link->reconnect("the client has another id");
    return true;
}

void ClientId::renew(std::string_view why) noexcept {
    share(0);
    lessor_ = nullptr;
    for (auto& link : links_)
        if (link->ready()) link->reconnect(std::string(why));
}

bool ClientId::is_usable() noexcept {
    if (clock_.client() == 0 || lessor_ != nullptr) return false;
    if (!clock_.is_stranded()) return true;
    clock_.restart();
    renew("the client's clock was set back");
    return false;
}

}  // namespace wss::kv
