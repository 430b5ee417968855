// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/counter.h"

#include <charconv>

namespace wss::kv {

namespace {

Status take_number(const GetAll::Item& item, int64_t& number) {
    number = 0;
    if (!item.found) return Status::ok();
    const char* end = item.value.data() + item.value.size();
    const auto parsed = std::from_chars(item.value.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) return Status::ok();
    return failure(Code::kInvalid, "the value of '{}' is not a 64-bit number", item.key);
}

// Reads the key and fills in the write.
template <typename AnyClient>
Status prepare(AnyClient& client, Increment& increment, PutAll& put) {
    GetAll get;
    get.items.emplace_back().key = increment.key;
    client.run(get);
    if (!get.status) return get.status;
    const GetAll::Item& item = get.items[0];
    int64_t number = 0;
    WSS_TRY(take_number(item, number));
    increment.overflow = __builtin_add_overflow(number, increment.delta, &increment.value);
    if (increment.overflow)
        return failure(Code::kExhausted, "{} plus {} is outside of a counter's range", number,
                       increment.delta);
    put.expect_unchanged(get);
    put.items.push_back({increment.key, std::to_string(increment.value), false});
    put.ttl_ms = increment.ttl_ms;
    if (item.found && increment.ttl_ms == 0) put.expires = item.expires;
    return Status::ok();
}

template <typename AnyClient>
void run_with(AnyClient& client, Increment& increment) {
    SystemClock clock;
    const Nanoseconds end = clock.now() + increment.timeout;
    bool again = true;
    while (again) {
        PutAll put;
        increment.outcome_unknown = false;
        increment.status = prepare(client, increment, put);
        if (!increment.status) return;
        client.run(put);
        increment.status = put.status;
        increment.timestamp = put.timestamp;
        increment.outcome_unknown = put.outcome_unknown;
        // A key that expires in between is absent in the next attempt.
        again = put.failed_condition || put.is_over;
        if (!again || clock.now() < end) continue;
        increment.status = Status(Code::kTimedOut, "other clients kept changing the counter");
        return;
    }
}

}  // namespace

void run(Client& client, Increment& increment) {
    run_with(client, increment);
}

void run(LocalClient& client, Increment& increment) {
    run_with(client, increment);
}

}  // namespace wss::kv
