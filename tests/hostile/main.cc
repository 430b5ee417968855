// SPDX-License-Identifier: Apache-2.0
// wss-attack ATTACK URI SECONDS SEED [LISTEN]: attacks running programs for a limited time.
//
// Prints one JSON object with the numbers of operations. Exit status 0: the attacked program behaved as it
// should, as far as its peer can see. 1: it did not, and stderr contains the reason.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "tests/hostile/attack.h"

namespace wss::hostile {
namespace {

struct Named {
    std::string_view name;
    Attack attack;
    const char* what;
};
constexpr Named kAttacks[] = {
    {"srp", attack_with_srp_messages, "initiators that send valid, damaged and random messages"},
    {"kv", attack_with_kv_messages, "the same as clients of a key-value partition"},
    {"rings", attack_rings, "initiators on shm:// that write anything into rings and send any descriptors"},
    {"slow", attack_by_slowness, "initiators that request data and accept none"},
    {"damage", relay_with_damage, "a relay to URI on LISTEN that damages streams, but forges no answer"},
    {"forge", relay_with_forgery, "a relay to URI on LISTEN that also forges, repeats and drops answers"},
};

int usage() {
    std::fprintf(stderr, "usage: wss-attack ATTACK URI SECONDS SEED [LISTEN]\n");
    for (const Named& each : kAttacks) std::fprintf(stderr, "  %-8s %s\n", each.name.data(), each.what);
    return 2;
}

int run(const Named& named, const Order& order) {
    Counts counts;
    const std::string wrong = named.attack(order, counts);
    std::printf("{");
    const char* separator = "";
    for (const auto& [name, count] : counts) {
        std::printf("%s\"%s\": %lu", separator, name.c_str(), count);
        separator = ", ";
    }
    std::printf("}\n");
    if (wrong.empty()) return 0;
    std::fprintf(stderr, "wss-attack %s, seed %lu: %s\n", named.name.data(), order.seed, wrong.c_str());
    return 1;
}

}  // namespace
}  // namespace wss::hostile

int main(int argc, char** argv) {
    using namespace wss::hostile;
    if (argc != 5 && argc != 6) return usage();
    const Order order{.address = argv[2],
                      .listen = argc == 6 ? argv[5] : "",
                      .duration = wss::from_s(std::strtoll(argv[3], nullptr, 10)),
                      .seed = std::strtoull(argv[4], nullptr, 10)};
    for (const Named& each : kAttacks)
        if (each.name == argv[1]) return run(each, order);
    return usage();
}
