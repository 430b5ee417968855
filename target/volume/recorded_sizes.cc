// SPDX-License-Identifier: Apache-2.0
#include "target/volume/recorded_sizes.h"

namespace wss::volume {

void RecordedSizes::begin_shrink(Shrink shrink) {
    now_ = {.resized = shrink.to,
            .part = shrink.part.value_or(now_.part),
            .shrinking = true,
            .followed = shrink.followed,
            .cut_from = shrink.cut_from,
            .cut_ownership = std::move(shrink.cut_ownership)};
}

void RecordedSizes::end_shrink(uint64_t required, std::optional<uint64_t> part) {
    now_ = {.resized = required, .part = part.value_or(now_.part)};
}

void RecordedSizes::end_growth(uint64_t required, std::optional<uint64_t> part) {
    now_.resized = required;
    now_.growing = 0;
    now_.part = part.value_or(now_.part);
}

void RecordedSizes::forget_cut() {
    now_.cut_from = 0;
    now_.cut_ownership.clear();
}

void RecordedSizes::lose() {
    forget_cut();
    now_.growing = 0;
}

void RecordedSizes::reopen(uint64_t required, std::optional<uint64_t> part) {
    // A start that requires no size takes the part from the configuration.
    end_shrink(required, required != 0 ? part : 0);
}

void RecordedSizes::open(uint64_t size, uint64_t part) {
    if (std::exchange(now_.growing, 0) == 0) return;
    now_.resized = size;
    now_.part = part;
}

}  // namespace wss::volume
