// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/load.h"

#include <algorithm>

namespace wss::wssbench {

namespace {

constexpr double kBeginSeconds = 30;   // time limit to connect and to complete the first operation
constexpr double kEndSeconds = 60;     // operations in flight time out after at most 30 s
constexpr double kTraceSeconds = 600;  // time limit for a window that lasts until the threads end

// Sets the spin time explicitly. By default the reactor derives it from the processors of the thread that
// creates it, and that thread may be pinned to fewer processors than the reactor's thread may use.
reactor::Reactor::Options spinning() {
    return {.spin = processors().size() > 1 ? from_us(50) : Nanoseconds{0}};
}

uint64_t sum_of(const LoadThreads& threads) {
    uint64_t sum = 0;
    for (const auto& thread : threads) sum += thread->operations();
    return sum;
}

bool all_over(const LoadThreads& threads) {
    return std::all_of(threads.begin(), threads.end(), [](const auto& thread) { return thread->over(); });
}

bool any_over(const LoadThreads& threads) {
    return std::any_of(threads.begin(), threads.end(), [](const auto& thread) { return thread->over(); });
}

// Sleeps until the time has expired, a thread has ended, or, with `drain`, all threads have ended.
void watch(const LoadThreads& threads, double seconds, bool drain) {
    for (double end = seconds_now() + seconds; seconds_now() < end && !interrupted();) {
        if (drain ? all_over(threads) : any_over(threads)) return;
        double slice = drain ? 0.002 : std::min(0.02, std::max(end - seconds_now(), 0.0));
        std::this_thread::sleep_for(std::chrono::duration<double>(slice));
    }
}

// Waits until all threads run: the time to connect is not measured, because it may be long on a busy machine.
void wait_for_first(const LoadThreads& threads) {
    auto begun = [](const auto& thread) { return thread->ready() && thread->operations() > 0; };
    for (double end = seconds_now() + kBeginSeconds; seconds_now() < end && !interrupted();) {
        if (any_over(threads) || std::all_of(threads.begin(), threads.end(), begun)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// On a disk that others also use, an operation may take longer than the window. Extends the window until one
// operation ends.
void wait_for_one_more(const LoadThreads& threads, uint64_t before) {
    for (double end = seconds_now() + kBeginSeconds; seconds_now() < end && !interrupted();) {
        if (any_over(threads) || sum_of(threads) > before) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

struct Moment {
    double time, own_cpu, server_cpu, storage_bytes;
    uint64_t operations;
};

using Servers = std::vector<const Program*>;

Moment moment(const LoadThreads& threads, const Servers& servers) {
    double server_cpu = 0, storage_bytes = servers.empty() ? storage_bytes_of("self") : 0;
    for (const Program* server : servers) {
        server_cpu += server->cpu_seconds();
        storage_bytes += server->storage_bytes();
    }
    return {seconds_now(), own_cpu_seconds(), server_cpu, storage_bytes, sum_of(threads)};
}

// Time from the first operation of any thread to the end of the last one, without connecting and logging out.
double seconds_of_operations(const LoadThreads& threads) {
    Nanoseconds first{0}, last{0};
    for (const auto& thread : threads) {
        LoadThread::Span span = thread->span();
        if (span.last.count == 0) continue;
        first = first.count == 0 ? span.first : std::min(first, span.first);
        last = std::max(last, span.last);
    }
    return static_cast<double>((last - first).count) * 1e-9;
}

// The distribution {percent, us}. A percentile is known if at least five latencies exceed it.
Json distribution_of(const Histogram& latencies) {
    constexpr double kPercents[] = {1,  5,  10, 20, 30,   40,   50,    60,   70,
                                    80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99};
    constexpr double kBeyondMin = 5;
    Json known = {{"percent", Json::array()}, {"us", Json::array()}};
    for (double percent : kPercents) {
        if (static_cast<double>(latencies.count()) * (100 - percent) / 100 < kBeyondMin) break;
        known["percent"].push_back(percent);
        known["us"].push_back(rounded(static_cast<double>(latencies.percentile(percent)) / 1000));
    }
    return known;
}

Result<Sample> sample_of(const LoadThreads& threads, const Moment& from, const Moment& to, bool server) {
    auto operations = static_cast<double>(to.operations - from.operations);
    if (operations == 0) return Status(Code::kTimedOut, "no operation completed during the measurement");
    Histogram latencies;
    for (const auto& thread : threads) latencies.merge(thread->latencies());
    Sample sample{.rate = operations / (to.time - from.time)};
    if (latencies.count() > 0) {
        sample.latency_us = static_cast<double>(latencies.percentile(50)) / 1000;
        sample.p99_us = static_cast<double>(latencies.percentile(99)) / 1000;
        if (Json known = distribution_of(latencies); !known["us"].empty()) sample.more["latency"] = known;
    }
    sample.client_cpu_us = (to.own_cpu - from.own_cpu) * 1e6 / operations;
    if (server) sample.server_cpu_us = (to.server_cpu - from.server_cpu) * 1e6 / operations;
    if (from.storage_bytes >= 0) sample.storage_bytes = (to.storage_bytes - from.storage_bytes) / operations;
    return sample;
}

}  // namespace

LoadThread::LoadThread() : reactor_(clock_, spinning()) {}

void LoadThread::start(int processor) {
    thread_ = std::thread([this, processor] {
        if (processor >= 0) pin_thread(0, {processor});
        begin();
        reactor_.run();
        over_.store(true, std::memory_order_release);
    });
}

void LoadThread::ask_to_end() {
    reactor_.post([this] { end(); });
}

void LoadThread::end() {
    if (ending_) return;
    ending_ = true;
    wind_down();
}

void LoadThread::join() {
    if (thread_.joinable()) thread_.join();
}

Status LoadThread::failure_of_it() {
    std::lock_guard lock(m_);
    return why_;
}

void LoadThread::operations_begin() noexcept {
    if (takes_span_ && span_.first.count == 0) span_.first = clock_.now();
}

void LoadThread::count_one(Nanoseconds begun) noexcept {
    operations_.fetch_add(1, std::memory_order_relaxed);
    if (takes_span_) span_.last = clock_.now();
    if (begun.count > 0 && measuring_.load(std::memory_order_relaxed))
        latencies_.record(static_cast<uint64_t>((clock_.now() - begun).count));
}

Nanoseconds LoadThread::stamp() noexcept {
    return stamps_++ % kLatencyEvery == 0 ? clock_.now() : Nanoseconds{0};
}

void LoadThread::failed(const Status& why) {
    {
        std::lock_guard lock(m_);
        if (!why_) return;  // keep the first failure
        why_ = why;
    }
    end();
}

void LoadThread::finished() {
    reactor_.stop();
}

Result<Sample> measure_threads(LoadThreads& threads, const Window& window, const Settings& settings,
                               const Servers& servers) {
    std::vector<int> clients = client_processors();
    if (settings.pin)
        for (const Program* server : servers) server->pin(server_processors());
    bool until_done = window.seconds <= 0;
    Moment from = moment(threads, servers);
    for (size_t i = 0; i < threads.size(); ++i) {
        threads[i]->measure(until_done);
        if (until_done) threads[i]->take_span();
        threads[i]->start(settings.pin ? clients[i % clients.size()] : -1);
    }
    if (!until_done) {
        wait_for_first(threads);
        watch(threads, window.warm_up, false);
        for (const auto& thread : threads) thread->measure(true);
        from = moment(threads, servers);
    }
    watch(threads, until_done ? kTraceSeconds : window.seconds, until_done);
    wait_for_one_more(threads, from.operations);
    Moment to = moment(threads, servers);
    for (const auto& thread : threads) {
        thread->measure(false);
        thread->ask_to_end();
    }
    watch(threads, kEndSeconds, true);
    Status why;
    for (const auto& thread : threads) {
        thread->join();
        if (why) why = thread->failure_of_it();
    }
    if (!why) return why;
    if (until_done) to.time = from.time + seconds_of_operations(threads);
    auto sample = sample_of(threads, from, to, !servers.empty());
    // The time of a trace excludes connecting and logging in, but its processor time would include them.
    if (sample && until_done) sample->client_cpu_us = sample->server_cpu_us = -1;
    return sample;
}

}  // namespace wss::wssbench
