// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/client.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/base/file.h"
#include "lib/base/thread.h"
#include "lib/kv/client/client_engine.h"

namespace wss::kv {

void leak(std::unique_ptr<Engine> engine) {
    static std::mutex lock;
    static auto* kept = new std::vector<std::unique_ptr<Engine>>;
    std::lock_guard guard(lock);
    kept->push_back(std::move(engine));
}

void Statistics::add(const Statistics& other) {
    const auto* from = reinterpret_cast<const uint64_t*>(&other);
    auto* to = reinterpret_cast<uint64_t*>(this);
    static_assert(sizeof(Statistics) % sizeof(uint64_t) == 0, "counters only");
    for (size_t i = 0; i < sizeof(Statistics) / sizeof(uint64_t); ++i) to[i] += from[i];
}

std::string_view to_string(Algorithm algorithm) {
    static constexpr std::string_view kNames[] = {"ramp-fast",      "ramp-small",   "ramp-hybrid",
                                                  "2pl-sequential", "2pl-parallel", "none"};
    return kNames[static_cast<size_t>(algorithm)];
}

std::string_view to_string(Transport transport) {
    static constexpr std::string_view kNames[] = {"message", "ring", "ring-polled", "ring-announced"};
    return kNames[static_cast<size_t>(transport)];
}

std::string_view to_string(OneSided mode) {
    static constexpr std::string_view kNames[] = {"off", "paper", "on"};
    return kNames[static_cast<size_t>(mode)];
}

std::string_view to_string(Path path) {
    static constexpr std::string_view kNames[] = {"none", "message", "one-sided", "cache"};
    return kNames[static_cast<size_t>(path)];
}

void PutAll::expect_unchanged(const GetAll& read) {
    for (const GetAll::Item& item : read.items)
        conditions.push_back({.key = item.key, .expected = item.found ? item.timestamp : Timestamp{}});
}

// --- Client ---

// A thread with a session. Requests arrive through a lock-free stack that many threads push to.
class Client::Worker final : public reactor::Source {
  public:
    ~Worker() override {
        if (thread_.joinable()) {
            push_stop();
            thread_.join();
        }
        if (engine_ && !shut_ && !engine_->shut()) leak(std::move(engine_));
    }

    Status start(const Options& options) {
        wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!wake_) return Status::from_errno(errno, "cannot create an eventfd (ulimit -n)");
        engine_ = std::make_unique<Engine>();
        WSS_TRY(engine_->open(options));
        auto thread = start_thread("a session", [this] { run(); });
        if (!thread) return thread.status();
        thread_ = std::move(*thread);
        std::unique_lock lock(m_);
        changed_.wait(lock, [this] { return answered_; });
        return why_;
    }

    void push(Request& request) noexcept {
        Request* head = head_.load(std::memory_order_relaxed);
        do {
            request.next = head;
        } while (!head_.compare_exchange_weak(head, &request, std::memory_order_seq_cst,
                                              std::memory_order_relaxed));
        // Dekker's pattern: the pusher checks whether the reactor sleeps, and the reactor checks the stack
        // before it sleeps.
        if (sleeping_.load(std::memory_order_seq_cst)) wake();
    }

    size_t poll() noexcept override {
        if (sleeping_.exchange(false, std::memory_order_seq_cst)) {
            uint64_t count;
            [[maybe_unused]] ssize_t drained = read(wake_.get(), &count, sizeof count);
        }
        Request* newest = head_.exchange(nullptr, std::memory_order_seq_cst);
        Request* oldest = nullptr;
        while (newest != nullptr) {
            Request* next = std::exchange(newest->next, oldest);
            oldest = std::exchange(newest, next);
        }
        size_t count = 0;
        for (; oldest != nullptr; ++count) {
            Request& request = *std::exchange(oldest, oldest->next);
            engine_->sessions[0]->submit(request);
        }
        return count;
    }
    bool arm() noexcept override {
        sleeping_.store(true, std::memory_order_seq_cst);
        return head_.load(std::memory_order_seq_cst) == nullptr;
    }
    int fd() const noexcept override { return wake_.get(); }

    Engine& engine() { return *engine_; }
    uint32_t partitions() const { return partitions_; }

  private:
    void wake() noexcept {
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);  // full: the thread is awake
    }
    void push_stop() {
        engine_->reactor.post([this] { engine_->reactor.stop(); });
    }
    void run() {
        engine_->reactor.add(*this);
        engine_->sessions[0]->start([this](const Status& status) {
            std::lock_guard lock(m_);
            if (std::exchange(answered_, true)) return;
            why_ = status;
            partitions_ = engine_->sessions[0]->partitions();
            changed_.notify_all();
        });
        engine_->reactor.run();
        // Requests that were pushed but not taken end with kClosed like the others.
        engine_->sessions[0]->close();
        poll();
        engine_->reactor.remove(*this);
        shut_ = engine_->shut();
    }

    std::unique_ptr<Engine> engine_;
    Descriptor wake_;
    std::atomic<Request*> head_{nullptr};
    std::atomic<bool> sleeping_{false};
    std::thread thread_;
    bool shut_ = false;
    uint32_t partitions_ = 0;
    std::mutex m_;
    std::condition_variable changed_;
    bool answered_ = false;  // guarded by m_
    Status why_;             // guarded by m_
};

Result<std::unique_ptr<Client>> Client::connect(const Options& options) {
    std::unique_ptr<Client> client(new Client);
    Options mine = options;
    mine.sessions = 1;
    if (!mine.shared) mine.shared = std::make_shared<SharedState>(mine.address_cache);
    client->shared_ = mine.shared;
    for (uint32_t i = 0; i < std::max(options.threads, 1u); ++i) {
        client->workers_.push_back(std::make_unique<Worker>());
        if (Status status = client->workers_.back()->start(mine); !status) return status;
    }
    return client;
}

Client::~Client() = default;

void Client::submit(Request& request) noexcept {
    // Each thread uses one worker: its requests stay in order, and session order holds for it.
    static std::atomic<uint32_t> threads{0};
    thread_local const uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed);
    workers_[mine % workers_.size()]->push(request);
}

void Client::run(Request& request) noexcept {
    struct Waiter {
        std::mutex m;
        std::condition_variable changed;
        bool over = false;
    } waiter;
    auto* done = std::exchange(request.done, [](Request& finished) noexcept {
        // Notify under the lock: the waiter is destroyed as soon as run() can take the lock.
        Waiter& who = *static_cast<Waiter*>(finished.context);
        std::lock_guard lock(who.m);
        who.over = true;
        who.changed.notify_one();
    });
    void* context = std::exchange(request.context, &waiter);
    submit(request);
    std::unique_lock lock(waiter.m);
    waiter.changed.wait(lock, [&] { return waiter.over; });
    request.done = done;
    request.context = context;
}

uint32_t Client::partitions() const noexcept {
    return workers_[0]->partitions();
}

uint32_t Client::partition_of(std::string_view key) const noexcept {
    return kv::partition_of(fingerprint(key), partitions());
}

Statistics Client::statistics() {
    Statistics total;
    for (auto& worker : workers_) {
        std::mutex m;
        std::condition_variable changed;
        bool over = false;
        worker->engine().reactor.post([&] {
            std::lock_guard lock(m);
            total.add(worker->engine().sessions[0]->statistics());
            over = true;
            changed.notify_one();
        });
        std::unique_lock lock(m);
        changed.wait(lock, [&] { return over; });
    }
    return total;
}

std::shared_ptr<SharedState> Client::shared() const {
    return shared_;
}

}  // namespace wss::kv
