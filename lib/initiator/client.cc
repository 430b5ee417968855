// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/client.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/fabric/open.h"

namespace wss::initiator {

// The text of a reason may vary without end ("try again in 3 s").
constexpr size_t kReconnectReasonsMax = 16;

// --- SubmitStack ---

Result<std::unique_ptr<SubmitStack>> SubmitStack::create(Session& session) {
    std::unique_ptr<SubmitStack> stack(new SubmitStack(session));
    stack->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stack->wake_) return Status::from_errno(errno, "cannot create an eventfd (ulimit -n)");
    return stack;
}

void SubmitStack::push(ClientRequest& request) noexcept {
    ClientRequest* head = head_.load(std::memory_order_relaxed);
    do {
        request.next = head;
    } while (
        !head_.compare_exchange_weak(head, &request, std::memory_order_seq_cst, std::memory_order_relaxed));
    // The request may have ended by now.
    if (!sleeping_.load(std::memory_order_seq_cst)) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);  // full: already awake
}

size_t SubmitStack::poll() noexcept {
    if (sleeping_.load(std::memory_order_relaxed)) {
        sleeping_.store(false, std::memory_order_seq_cst);
        uint64_t pushes;
        [[maybe_unused]] ssize_t drained = read(wake_.get(), &pushes, sizeof pushes);
    }
    ClientRequest* newest = head_.exchange(nullptr, std::memory_order_seq_cst);
    ClientRequest* oldest = nullptr;
    while (newest != nullptr) {
        ClientRequest* next = std::exchange(newest->next, oldest);
        oldest = std::exchange(newest, next);
    }
    size_t count = 0;
    for (; oldest != nullptr; ++count) {
        ClientRequest& request = *std::exchange(oldest, oldest->next);
        if (!session_.submit(request)) request.complete(request);
    }
    return count;
}

bool SubmitStack::arm() noexcept {
    sleeping_.store(true, std::memory_order_seq_cst);
    return head_.load(std::memory_order_seq_cst) == nullptr;
}

// --- Client ---

Result<std::unique_ptr<Client>> Client::connect(const std::string& uri, Options options) {
    auto address = fabric::Address::parse(uri, WSS_SRP_DEFAULT_PORT);
    if (!address) return address.status();
    options.address = *address;
    std::unique_ptr<Client> client(new Client(*address));
    if (Status status = client->prepare(std::move(options)); !status) return status;
    auto thread = start_thread("the connection", [raw = client.get()] { raw->reactor_.run(); });
    if (!thread) return thread.status();
    client->thread_ = std::move(*thread);
    if (Status status = client->wait_until_ready(); !status) return status;
    return client;
}

Status Client::prepare(Options options) {
    WSS_TRY(reactor_.ready());
    fabric::tls::Credentials credentials{.files = options.tls, .identity = {}, .known = {}};
    if (!options.identity.secret.empty()) credentials.identity = options.identity;
    auto fabric = fabric::open(address_, credentials);
    if (!fabric) return fabric.status();
    fabric_ = std::move(*fabric);
    auto poller = fabric_->create_poller();
    if (!poller) return poller.status();
    poller_ = std::move(*poller);
    reactor_.add(*poller_);
    auto session = Session::create(reactor_, *fabric_, *poller_, random_, std::move(options), *this);
    if (!session) return session.status();
    session_ = std::move(*session);
    auto stack = SubmitStack::create(*session_);
    if (!stack) return stack.status();
    stack_ = std::move(*stack);
    // The reactor polls the stack after the session, so a request is sent one turn later. That turn follows
    // at once, because submit() marks the session as busy.
    reactor_.add(*stack_);
    return Status::ok();
}

Client::~Client() {
    if (thread_.joinable()) {
        reactor_.post([this] { session_->close(); });
        std::unique_lock lock(m_);
        // The fabric bounds this wait: a closing connection ends soon.
        changed_.wait(lock, [this] { return phase_ == Phase::kOver; });
        lock.unlock();
        reactor_.stop();
        thread_.join();
    }
    if (stack_) reactor_.remove(*stack_);
    stack_.reset();
    session_.reset();
    if (poller_) reactor_.remove(*poller_);
}

Status Client::wait_until_ready() {
    reactor_.post([this] { session_->start(); });
    std::unique_lock lock(m_);
    changed_.wait(lock, [this] { return phase_ != Phase::kStarting; });
    return phase_ == Phase::kReady ? Status::ok() : why_;
}

void Client::on_ready(Session&) noexcept {
    std::lock_guard lock(m_);
    if (phase_ == Phase::kReady) log::info("{}: reconnected", address_.to_string());
    phase_ = Phase::kReady;
    changed_.notify_all();
}

void Client::on_lost(Session&, const Status& why) noexcept {
    reconnect_failed_.clear();
    log::warning("{}: connection lost: {}; reconnecting", address_.to_string(), why.to_string());
}

// Attempts follow each other for as long as the target is away, so each reason is logged once.
void Client::on_reconnect_failed(Session&, const Status& why) noexcept {
    if (reconnect_failed_.size() >= kReconnectReasonsMax || !reconnect_failed_.insert(why.to_string()).second)
        return;
    log::warning("{}: cannot reconnect: {}; trying again", address_.to_string(), why.to_string());
}

void Client::on_failed(Session&, const Status& why) noexcept {
    std::lock_guard lock(m_);
    phase_ = Phase::kOver;
    why_ = why;
    changed_.notify_all();
}

void Client::on_closed(Session&) noexcept {
    std::lock_guard lock(m_);
    phase_ = Phase::kOver;
    changed_.notify_all();
}

void Client::on_volume_changed(Session&, Volume& volume) noexcept {
    for (ClientVolume* open : open_) {
        if (open->volume_ != &volume) continue;
        std::lock_guard lock(open->m_);
        open->info_ = volume.info();
        open->gone_ = volume.gone();
    }
}

void Client::on_reactor(const std::function<void()>& task) {
    std::mutex m;
    std::condition_variable done_changed;
    bool done = false;
    reactor_.post([&] {
        task();
        std::lock_guard lock(m);
        done = true;
        done_changed.notify_one();
    });
    std::unique_lock lock(m);
    done_changed.wait(lock, [&] { return done; });
}

std::vector<VolumeName> Client::volumes() {
    std::vector<VolumeName> names;
    on_reactor([&] { names = session_->volumes(); });
    return names;
}

Result<std::unique_ptr<ClientVolume>> Client::open(const std::string& name) {
    std::mutex m;
    std::condition_variable done_changed;
    std::unique_ptr<ClientVolume> opened;
    Status why(Code::kInternal, "not opened");
    bool done = false;
    reactor_.post([&] {
        session_->open_volume(name, [&](Result<Volume*> result) {
            std::lock_guard lock(m);
            if (result) {
                opened = std::make_unique<ClientVolume>(**result);
                open_.push_back(opened.get());
            } else {
                why = result.status();
            }
            done = true;
            done_changed.notify_one();
        });
    });
    std::unique_lock lock(m);
    done_changed.wait(lock, [&] { return done; });
    if (!opened) return why;
    return opened;
}

void Client::close(std::unique_ptr<ClientVolume> volume) {
    on_reactor([&] {
        std::erase(open_, volume.get());
        session_->close_volume(volume->volume());
    });
}

namespace {

struct Waiter {
    std::mutex m;
    std::condition_variable changed;
    bool done = false;
};

}  // namespace

void Client::run(ClientRequest& request) noexcept {
    Waiter waiter;
    request.context = &waiter;
    request.complete = [](ClientRequest& over) noexcept {
        // Notify under the lock: the waiter is destroyed as soon as run() gets the lock.
        Waiter& who = *static_cast<Waiter*>(over.context);
        std::lock_guard lock(who.m);
        who.done = true;
        who.changed.notify_one();
    };
    request.done = [](Request& over, void*) noexcept {
        ClientRequest& mine = static_cast<ClientRequest&>(over);
        mine.complete(mine);
    };
    submit(request);
    std::unique_lock lock(waiter.m);
    waiter.changed.wait(lock, [&] { return waiter.done; });
}

Status Client::add_region(Result<std::unique_ptr<fabric::Region>> region, bool copied) {
    if (!region) return region.status();
    Status status;
    on_reactor([&] { status = session_->memory().regions().add(std::move(*region), copied); });
    return status;
}

Result<std::byte*> Client::allocate(size_t bytes) {
    auto region = fabric_->allocate(bytes, fabric::Access::kRemoteReadWrite);
    if (!region) return region.status();
    std::byte* memory = (*region)->bytes().data();
    if (Status status = add_region(std::move(region), false); !status) return status;
    return memory;
}

Status Client::register_memory(std::span<std::byte> memory) {
    if (memory.empty()) return Status(Code::kInvalid, "cannot register 0 bytes of memory");
    const bool copied = copies_registered(*fabric_);
    auto access = copied ? fabric::Access::kLocal : fabric::Access::kRemoteReadWrite;
    return add_region(fabric_->register_memory(memory, access), copied);
}

Status Client::release_memory(const std::byte* memory) {
    Result<std::unique_ptr<fabric::Region>> region = Status(Code::kInternal, "not registered");
    on_reactor([&] { region = session_->memory().regions().remove(memory); });
    return region.status();
}

void Client::invalidate(std::span<const std::byte> memory) {
    on_reactor([&] { session_->memory().regions().invalidate(memory); });
}

}  // namespace wss::initiator
