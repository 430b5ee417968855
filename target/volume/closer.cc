// SPDX-License-Identifier: Apache-2.0
#include "target/volume/closer.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace wss::volume {

namespace {

// How long release() waits for other users of a volume: a resize or a reopening, which its removal ends.
constexpr auto kUsersMax = std::chrono::seconds(1);
constexpr auto kLook = std::chrono::milliseconds(5);

}  // namespace

Closer::Closer(bool with_thread) : ended_(!with_thread) {
    if (with_thread) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::shared_ptr<Volume> Closer::make(VolumeOptions options, Identity identity,
                                     std::unique_ptr<io::Backend> backend) {
    return {new Volume(std::move(options), identity, std::move(backend)),
            [self = shared_from_this()](Volume* volume) { self->take(volume); }};
}

void Closer::take(Volume* volume) noexcept {
    {
        std::lock_guard lock(m_);
        if (!ended_) {
            ++taken_;
            waiting_.push_back(*volume);
            arrived_.notify_one();
            return;
        }
    }
    delete volume;
}

void Closer::run(const std::stop_token& stop) {
    List<Volume> begun;
    std::unique_lock lock(m_);
    // After a stop the remaining volumes are still closed.
    while (!begun.empty() || arrived_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
        List<Volume> arrived;
        arrived.splice_back(waiting_);
        lock.unlock();
        arrived.for_each([](Volume& volume) { volume.begin_close(); });
        begun.splice_back(arrived);
        delete begun.pop_front();
        lock.lock();
        ++closed_;
        gone_.notify_all();
    }
}

void Closer::release(std::vector<std::shared_ptr<Volume>> volumes) {
    const auto used = [](const std::shared_ptr<Volume>& volume) { return volume.use_count() > 1; };
    for (const auto& volume : volumes) volume->end_waits();
    const auto limit = std::chrono::steady_clock::now() + kUsersMax;
    while (std::ranges::any_of(volumes, used) && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(kLook);
    // The thread may be waiting for storage that does not answer.
    for (const auto& volume : volumes)
        if (!used(volume)) volume->begin_close();
}

void Closer::wait() {
    std::unique_lock lock(m_);
    gone_.wait(lock, [this, taken = taken_] { return closed_ >= taken; });
}

void Closer::end() {
    {
        std::lock_guard lock(m_);
        ended_ = true;
    }
    thread_ = {};
}

}  // namespace wss::volume
