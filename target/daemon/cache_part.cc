// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/cache_part.h"

#include <algorithm>
#include <future>

#include "lib/base/log.h"
#include "lib/fabric/open.h"
#include "lib/fabric/resolve.h"
#include "target/daemon/ask_reactor.h"
#include "target/daemon/session_methods.h"

namespace wss::daemon {

Result<std::unique_ptr<CachePart>> CachePart::create(const control::TargetConfig& config,
                                                     const volume::StateLock::Shared& state,
                                                     reactor::Reactor& reactor, size_t reactors) {
    std::unique_ptr<CachePart> part(new CachePart(reactor));
    std::shared_ptr<const auth::SecretBook> secrets;
    fabric::tls::Credentials credentials{.files = config.tls, .identity = {}, .known = {}};
    if (!config.cache_secrets.empty()) {
        auto book = read_secret_book(config, config.cache_secrets);
        if (!book) return book.status().within("--cache-secrets");
        secrets = std::move(*book);
        part->known_ = std::make_shared<fabric::tls::KnownPeers>(secrets->secrets());
        credentials.known = part->known_;
    }
    std::vector<cache::Net> nets;
    for (const std::string& uri : config.cache_listen) {
        auto address = fabric::parse_local(uri, control::kCachePort);
        if (!address) return address.status().within("--cache-listen");
        auto fabric = fabric::open(*address, credentials);
        if (!fabric) return fabric.status().within("listen for cache engines on " + address->to_string());
        auto reserved = fabric::reserve(**fabric, *address);
        if (!reserved) return reserved.status().within("listen for cache engines on " + address->to_string());
        part->reserved_.push_back(std::move(*reserved));
        auto poller = (*fabric)->create_poller();
        if (!poller) return poller.status();
        part->wanted_.push_back(*address);
        part->fabrics_.push_back(std::move(*fabric));
        part->pollers_.push_back(std::move(*poller));
        reactor.add(*part->pollers_.back());
        nets.push_back({part->fabrics_.back().get(), part->pollers_.back().get()});
    }
    cache::CacheOptions options;
    options.reactors = static_cast<uint32_t>(reactors);
    options.line_bytes = static_cast<uint32_t>(config.cache_line);
    options.read_ahead.window_max = static_cast<uint32_t>(config.cache_read_ahead);
    options.read_ahead.window_first =
        std::min(options.read_ahead.window_first, options.read_ahead.window_max);
    options.secrets = [] { return Random::entropy(); };
    options.engine_secrets = std::move(secrets);
    auto policy = cache::parse_policy(config.cache_policy);
    if (!policy) return policy.status().within("--cache-policy");
    options.default_policy.policy = *policy;
    options.lost_grace = from_s(config.cache_grace);
    auto store = state == nullptr ? cache::open_membership_memory(reactor)
                                  : cache::open_membership_file(state, reactor);
    auto cache = cache::Cache::create(reactor, part->random_, nets, std::move(store), options);
    if (!cache) return cache.status();
    part->cache_ = std::move(*cache);
    return part;
}

CachePart::~CachePart() {
    cache_.reset();
    for (auto& poller : pollers_) reactor_.remove(*poller);
}

// A storage process distinguishes targets, but not the volumes of a target. So its storage may serve only one
// volume: two volumes would return each other's old contents.
static constexpr std::string_view kRemote = "rs:";

void CachePart::add_remote_storage(volume::VolumeSet::Options& options) {
    options.of_one_volume = [](const std::string& specification) {
        return specification.starts_with(kRemote);
    };
    options.open = [this, open = std::move(options.open),
                    owner = fmt::format("{:016x}", cache_->storage_id())](
                       const std::string& specification,
                       const io::OpenOptions& how) -> Result<std::unique_ptr<io::Backend>> {
        if (!specification.starts_with(kRemote)) {
            io::OpenOptions ours = how;
            ours.owner = owner;
            return open(specification, ours);
        }
        return cache::RemoteBackend::open(cache_->storage_nodes(), reactor_,
                                          specification.substr(kRemote.size()), how);
    };
}

void CachePart::follow_deletions(volume::VolumeSet::Options& options) {
    options.before_deletion = [this](volume::Deletion deletion) {
        reactor_.post([this, deletion = std::move(deletion)] { cache_->deletions().prepare(deletion); });
    };
    options.deleted = [this](uint64_t wwid, std::function<void()> recorded) {
        reactor_.post(
            [this, wwid, recorded = std::move(recorded)] { cache_->deletions().over(wwid, recorded); });
    };
}

Status CachePart::listen() {
    reserved_.clear();
    for (size_t i = 0; i < wanted_.size(); ++i) {
        auto bound = ask_reactor<Result<fabric::Address>>([&](auto take) {
            reactor_.post([this, i, take] { take(cache_->admission().listen(i, wanted_[i])); });
        });
        if (!bound) return bound.status();
        if (!*bound) return bound->status().within("listen for cache engines on " + wanted_[i].to_string());
        bound_.push_back(**bound);
    }
    return Status::ok();
}

Status CachePart::reload_secrets(const control::TargetConfig& config) {
    auto book = read_secret_book(config, config.cache_secrets);
    if (!book) return book.status().within("--cache-secrets");
    const size_t count = (*book)->names();
    known_->replace((*book)->secrets());
    auto set = ask_reactor<bool>([&](auto take) {
        reactor_.post([cache = cache_.get(), book = std::move(*book), count, take]() mutable {
            cache->admission().set_secrets(std::move(book));
            log::info(
                "secrets of cache engines reloaded: {} engines are known; those that have joined remain",
                count);
            take(true);
        });
    });
    if (!set) return set.status().within("--cache-secrets: read, but not confirmed to be in use");
    return Status::ok();
}

void CachePart::warn_if_open(const control::TargetConfig& config) const {
    if (!config.cache_secrets.empty()) return log::info("cache engines authenticate");
    if (control::admits_by_certificate(config.tls, config.cache_listen))
        return log::info("cache engines need a certificate issued by --tls-client-ca");
    if (config.cache_auth_off)
        return log::warning(
            "CACHE ENGINES DO NOT AUTHENTICATE, as configured: any process that reaches them may join");
    log::warning(
        "CACHE ENGINES DO NOT AUTHENTICATE: any process that reaches --cache-listen may join, and read "
        "and change the data of clients; use --cache-secrets FILE, or --cache-auth-off if that is intended");
}

Status CachePart::stop(uint32_t seconds, cache::LastSave last) {
    auto promise = std::make_shared<std::promise<Status>>();
    auto future = promise->get_future();
    reactor_.post([this, promise, last, home_max = from_s(seconds)] {
        cache_->stop(home_max, last, [promise](const Status& home, Status saved) {
            if (!home) log::error("{}", home.to_string());
            promise->set_value(std::move(saved));
        });
    });
    if (future.wait_for(std::chrono::nanoseconds((from_s(seconds) + kFarewellMax).count)) !=
        std::future_status::ready)
        return failure(Code::kTimedOut,
                       "connections to cache engines did not close in time; exiting without them");
    return future.get();
}

std::string CachePart::not_ready() const {
    const cache::CacheInfo info = cache_->info();
    if (info.recovering) return "the cache waits for engines with dirty lines";
    return info.trouble.empty() ? "" : "writes wait for the state of the cache: " + info.trouble;
}

std::string CachePart::describe() const {
    std::string text = ", cache engines at";
    for (const auto& address : bound_) text += " " + address.to_string();
    return text;
}

}  // namespace wss::daemon
