// SPDX-License-Identifier: Apache-2.0
// Test filters: backends that wrap another one and inject the faults of real media.
//
//   error:every=100,errno=EIO,op=write:aio:PATH   every 100th write fails
//   error:from=1M,to=2M,errno=EIO:ram:64M         requests that touch [1M, 2M) fail there; flushes fail, too
//   error:after=1000:ram:64M                      the first 1000 requests succeed, all others fail
//   error:first=20,op=write:ram:64M               the first 20 writes fail, all others succeed
//   delay:us=500,op=read:ram:64M                  each read takes at least 500 us
//   delay:us=9000000,first=2,op=write:ram:64M     the first two writes take at least 9 s
//
// Keys: every=N, after=N, first=N, from=SIZE, to=SIZE, errno=EIO|ENOSPC|EROFS|ENOMEM|ENXIO|ETIMEDOUT|NUMBER,
// us=N, op=read|write|flush|discard|zeroes|all (default all). A filter hides memory(), so that all I/O passes
// through it.
#pragma once

#include "lib/io/backend.h"

namespace wss::io {

struct FilterRule {
    // The requests that are selected.
    bool any_op = true;
    Op op = Op::kRead;
    uint64_t every = 0;  // 0: not by count
    uint64_t after = 0;  // the first `after` requests are not selected
    uint64_t first = 0;  // only the next `first` can be selected; 0: no limit
    uint64_t from = 0;   // bytes; a range only if to > from
    uint64_t to = 0;
    // The effect on them.
    int error = EIO;
    uint64_t delay_us = 0;

    // True if the operation and the range match. Every range matches a flush. The filter does the counting.
    bool concerns(const Request& request) const {
        if (!any_op && request.op != op) return false;
        return request.op == Op::kFlush || to == 0 ||
               (request.offset < to && request.offset + request.length > from);
    }
};

// Parses "key=value,key=value".
Result<FilterRule> parse_filter_rule(std::string_view text);

std::unique_ptr<Backend> make_error_filter(const FilterRule& rule, std::unique_ptr<Backend> inner);
std::unique_ptr<Backend> make_delay_filter(const FilterRule& rule, std::unique_ptr<Backend> inner);

}  // namespace wss::io
