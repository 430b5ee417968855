// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/remote_load.h"

namespace wss::wssbench {

// A session that keeps all its requests in flight until it has no more accesses.
class RemoteLoad::Link final : public SessionLink {
  public:
    Link(RemoteLoad& thread, std::unique_ptr<Accesses> accesses)
        : SessionLink(thread.options_.link), thread_(thread), accesses_(std::move(accesses)) {}

  private:
    void opened() override;
    void completed(Slot& slot) noexcept override;
    void failed(const Status& why) override { thread_.failed(why); }
    void over() override { thread_.link_over(); }
    void go(Slot& slot) noexcept;

    RemoteLoad& thread_;
    const std::unique_ptr<Accesses> accesses_;
    size_t in_flight_ = 0;
};

void RemoteLoad::Link::opened() {
    thread_.begun_.fetch_add(1, std::memory_order_relaxed);
    thread_.operations_begin();
    for (Slot& slot : slots()) go(slot);
    if (in_flight_ == 0) close();
}

void RemoteLoad::Link::go(Slot& slot) noexcept {
    Access access;
    if (closing() || thread_.ending() || !accesses_->next(access)) return;
    slot.begun = thread_.stamp();
    ++in_flight_;
    submit(slot, access);
}

void RemoteLoad::Link::completed(Slot& slot) noexcept {
    --in_flight_;
    thread_.count_one(slot.begun);
    go(slot);
    if (in_flight_ == 0) close();
}

RemoteLoad::RemoteLoad(const RemoteOptions& options) : options_(options), random_(Random::entropy()) {}

Result<std::unique_ptr<LoadThread>> RemoteLoad::create(const std::string& uri, const RemoteOptions& options,
                                                       std::vector<std::unique_ptr<Accesses>> accesses) {
    auto address = fabric::Address::parse(uri, WSS_SRP_DEFAULT_PORT);
    if (!address) return address.status();
    std::unique_ptr<RemoteLoad> thread(new RemoteLoad(options));
    WSS_TRY(thread->network_.open(thread->reactor_, *address));
    for (uint32_t i = 0; i < options.connections; ++i) {
        thread->links_.push_back(std::make_unique<Link>(*thread, std::move(accesses[i])));
        WSS_TRY(thread->links_.back()->prepare(*address, thread->network_, thread->random_));
    }
    return std::unique_ptr<LoadThread>(std::move(thread));
}

RemoteLoad::~RemoteLoad() = default;

void RemoteLoad::begin() {
    for (const auto& link : links_) link->start();
}

void RemoteLoad::wind_down() {
    for (const auto& link : links_) link->close();
}

void RemoteLoad::link_over() {
    if (++links_over_ == links_.size()) finished();
}

}  // namespace wss::wssbench
