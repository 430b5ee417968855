// SPDX-License-Identifier: Apache-2.0
// The attacks of wss-attack, one in each file NAME_attack.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lib/base/clock.h"

namespace wss::hostile {

struct Order {
    std::string address;  // URI of the attacked server; of a relay: of the server behind it
    std::string listen;   // URI of a relay, whose clients are attacked
    Nanoseconds duration;
    uint64_t seed = 0;
};

// Numbers of operations, by which a caller can check that the attack was strong enough.
using Counts = std::map<std::string, uint64_t>;

// An attack lasts for the duration of the order. It returns a description of the failure, or "". Refused
// connections, and connections that the server closes, are not failures.
using Attack = std::string (*)(const Order& order, Counts& counts);

std::string attack_with_srp_messages(const Order& order, Counts& counts);
std::string attack_with_kv_messages(const Order& order, Counts& counts);
std::string attack_rings(const Order& order, Counts& counts);
std::string attack_by_slowness(const Order& order, Counts& counts);
std::string relay_with_damage(const Order& order, Counts& counts);
std::string relay_with_forgery(const Order& order, Counts& counts);

}  // namespace wss::hostile
