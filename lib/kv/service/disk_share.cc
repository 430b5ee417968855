// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/disk_share.h"

#include <algorithm>

namespace wss::kv {

std::optional<DiskShare::Hold> DiskShare::admit(const Owner& owner, size_t bytes) {
    const size_t requests_left = kRequestsMax - requests_, bytes_left = kBytesMax - bytes_;
    if (owner->requests_ >= requests_left || bytes > bytes_left || owner->bytes_ + bytes > bytes_left - bytes)
        return std::nullopt;
    ++requests_;
    ++owner->requests_;
    bytes_ += bytes;
    owner->bytes_ += bytes;
    return Hold(this, owner, bytes);
}

void DiskShare::give_back(Account& account, size_t bytes) {
    --requests_;
    --account.requests_;
    bytes_ -= bytes;
    account.bytes_ -= bytes;
}

void DiskShare::fetch(store::Store& store, const Owner& owner, Account::Fetch wanted) {
    if (owner->waiting_.empty()) turns_.push_back(owner);
    owner->waiting_.push_back(std::move(wanted));
    fetch_next(store);
}

void DiskShare::fetch_next(store::Store& store) {
    while (!turns_.empty()) {
        const auto free = std::find_if(under_way_.begin(), under_way_.end(),
                                       [](const UnderWay& one) { return one.done.run == nullptr; });
        if (free == under_way_.end()) return;
        const Owner owner = std::move(turns_.front());
        turns_.pop_front();
        const Account::Fetch wanted = std::move(owner->waiting_.front());
        owner->waiting_.pop_front();
        if (!owner->waiting_.empty()) turns_.push_back(owner);
        *free = {.share = this, .store = &store, .done = wanted.done};
        store.fetch(wanted.key, wanted.timestamp, {.run = &DiskShare::arrived, .context = &*free});
    }
}

// Call `done` first: `found` is valid only until the next fetch, which is not a const call.
void DiskShare::arrived(void* context, const store::Found& found) noexcept {
    auto& over = *static_cast<UnderWay*>(context);
    const store::FetchDone done = over.done;
    DiskShare& share = *over.share;
    done.run(done.context, found);
    over.done = {};
    share.fetch_next(*over.store);
}

}  // namespace wss::kv
