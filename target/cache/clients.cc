// SPDX-License-Identifier: Apache-2.0
#include "target/cache/clients.h"

#include <algorithm>

namespace wss::cache {

Client* Clients::add(std::unique_ptr<Client> client) {
    Client* made = client.get();
    clients_.push_back(std::move(client));
    for (EngineLink& engine : engines_.all())
        if (engine.is_ready() && (engine.is_storage() || index_.has_engine(engine.index())))
            introduce(*made, engine);
    return made;
}

void Clients::remove(Client* client) {
    for (size_t i = 0; i < client->engines.size(); ++i) {
        const uint64_t handle = client->engines[i].handle;
        if (handle == 0) continue;
        handles_.erase(handle);
        if (EngineLink* engine = engines_.link({static_cast<uint8_t>(i)})) engine->revoke(handle);
    }
    std::erase_if(clients_, [client](const auto& item) { return item.get() == client; });
}

void Clients::introduce(EngineLink& engine) noexcept {
    for (auto& client : clients_) introduce(*client, engine);
}

void Clients::introduce(Client& client, EngineLink& engine) noexcept {
    if (client.is_storage && engine.is_storage()) return;
    const auto& addresses = engine.addresses();
    auto address = std::find_if(addresses.begin(), addresses.end(),
                                [&](const fabric::Address& one) { return one.scheme == client.scheme; });
    wire::CacheEngineNotice notice{.added = true, .index = engine.index().value};
    if (address == addresses.end() || !notice.set_uri(address->to_string())) return;
    do notice.handle = secret();
    while (notice.handle == wire::kStorageHandle || handles_.contains(notice.handle));
    for (size_t at = 0; at < notice.token.size(); at += 8) wire::put64(notice.token.data() + at, secret());
    Client::Place& place = client.engines[engine.index().value];
    place.handle = notice.handle;
    place.attached = false;
    place.ticks = 0;
    handles_[notice.handle] = {&client, engine.index().value};
    engine.grant(notice);
    turn_.want();
}

void Clients::withdraw(EngineIndex engine) noexcept {
    for (auto& client : clients_) {
        Client::Place& place = client->engines[engine.value];
        if (place.handle == 0) continue;
        handles_.erase(place.handle);
        place = {};
        wire::CacheEngineNotice notice{.added = false, .index = engine.value};
        client->sink->notify(notice);
    }
}

void Clients::invite_anew() noexcept {
    for (auto& client : clients_)
        for (EngineLink& engine : engines_.all()) {
            Client::Place& place = client->engines[engine.index().value];
            if (place.handle == 0 || place.attached || !engine.is_ready()) continue;
            if (++place.ticks < place.patience) continue;
            place.patience = std::min<uint16_t>(place.patience * 2, Client::kInviteTicksMax);
            handles_.erase(place.handle);
            engine.revoke(place.handle);
            introduce(*client, engine);
        }
}

void Clients::grant_known(const wire::CacheEngineNotice& notice) noexcept {
    auto found = handles_.find(notice.handle);
    if (found != handles_.end()) found->second.first->sink->notify(notice);
}

void Clients::attached(const EngineLink& engine, uint64_t handle) noexcept {
    auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.second != engine.index().value) return;
    Client::Place& place = found->second.first->engines[engine.index().value];
    place.attached = true;
    place.patience = Client::kInviteTicks;
}

void Clients::detached(EngineLink& engine, uint64_t handle) noexcept {
    auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.second != engine.index().value) return;
    Client& client = *found->second.first;
    handles_.erase(found);
    client.engines[engine.index().value] = {};
    if (engine.is_ready()) introduce(client, engine);
}

}  // namespace wss::cache
