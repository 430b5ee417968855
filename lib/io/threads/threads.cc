// SPDX-License-Identifier: Apache-2.0
#include "lib/io/threads/threads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "lib/io/request.h"

namespace wss::io {

namespace {

constexpr size_t kStackBytes = 64 << 10;  // of a thread that makes one system call

// Each thread that gets an unaligned buffer keeps one of these until it ends.
struct Bounce {
    std::byte* data = nullptr;
    ~Bounce() { std::free(data); }
    std::byte* get() noexcept {
        if (data == nullptr) data = static_cast<std::byte*>(std::aligned_alloc(4096, File::kBounceBytes));
        return data;
    }
};

// Contents of a request's scratch memory until its own thread has read them.
struct Errand {
    File* file;
    Worker::Inbox* inbox;
};
static_assert(sizeof(Errand) <= sizeof(Request::scratch), "a request has room for its task");

void* one_request(void* argument) noexcept {
    Request& request = *static_cast<Request*>(argument);
    Errand errand = *std::launder(reinterpret_cast<Errand*>(request.scratch));
    Worker::perform(ThreadsBackend::run, errand.file, request, *errand.inbox);
    return nullptr;
}

}  // namespace

ThreadsBackend::ThreadsBackend(Kind kind, uint32_t threads, std::unique_ptr<File> file)
    : kind_(kind), file_(std::move(file)), worker_(run, file_.get(), threads) {}

Result<std::unique_ptr<Backend>> ThreadsBackend::open(Kind kind, uint32_t threads, const std::string& path,
                                                      const OpenOptions& options) {
    auto file = File::open(path, options);
    if (!file) return file.status();
    return std::unique_ptr<Backend>(new ThreadsBackend(kind, threads, std::move(*file)));
}

int ThreadsBackend::run(void* context, Request& request) noexcept {
    File& file = *static_cast<File*>(context);
    if (request.op != Op::kRead && request.op != Op::kWrite) return file.block_run(request);
    static thread_local Bounce bounce;
    bool aligned = reinterpret_cast<uintptr_t>(request.data) % file.memory_align() == 0;
    std::byte* buffer = aligned ? nullptr : bounce.get();
    if (!aligned && buffer == nullptr) return ENOMEM;
    return file.block_transfer(request, buffer);
}

Result<std::unique_ptr<Queue>> ThreadsBackend::open_queue(reactor::Reactor&) {
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0)
        return Status::from_errno(errno, fmt::format("{}: cannot create an eventfd", describe()));
    return std::unique_ptr<Queue>(std::make_unique<ThreadsQueue>(*this, event_fd));
}

std::string ThreadsBackend::describe() const {
    return (kind_ == Kind::kPool ? fmt::format("pool:{}:", worker_.threads()) : "spawn:") + file_->path();
}

ThreadsQueue::ThreadsQueue(ThreadsBackend& backend, int event_fd)
    : backend_(backend), event_fd_(event_fd), inbox_(event_fd) {}

ThreadsQueue::~ThreadsQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
    close(event_fd_);
}

void ThreadsQueue::submit(Request& request) noexcept {
    ++in_flight_;
    File& file = backend_.file();
    request.done_bytes = 0;
    request.error = refusal(request, file.size(), file.logical_block(), file.read_only());
    if (request.error != 0 || (request.op != Op::kFlush && request.length == 0)) {
        refused_.push_back(request);
        return;
    }
    ++signals_due_;
    if (backend_.kind() == ThreadsBackend::Kind::kPool || !spawn(request))
        backend_.worker().submit(request, inbox_);
}

bool ThreadsQueue::spawn(Request& request) noexcept {
    if (request.op != Op::kRead && request.op != Op::kWrite) return false;
    new (request.scratch) Errand{&backend_.file(), &inbox_};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited: only the main thread receives signals
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, one_request, &request);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

size_t ThreadsQueue::poll() noexcept {
    if (in_flight_ == 0) return 0;
    const size_t events = finish_all(refused_, in_flight_);
    if (!inbox_.has_news()) return events;
    List<Request> done;
    inbox_.take(done);
    return events + finish_all(done, in_flight_);
}

bool ThreadsQueue::arm() noexcept {
    // An idle volume must not cost a system call, and a late signal must not keep its reactor from sleeping.
    uint64_t count = 0;
    if (signals_due_ > 0 && read(event_fd_, &count, sizeof count) == sizeof count) signals_due_ -= count;
    // This check must follow the draining: deliveries after that make the descriptor readable again.
    return refused_.front() == nullptr && !inbox_.has_news();
}

}  // namespace wss::io
