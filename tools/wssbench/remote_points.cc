// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/remote_points.h"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "lib/base/size.h"

namespace wss::wssbench {

namespace {

constexpr uint32_t kLanesMax = 64;

// Clients have one thread per client processor. The connections are distributed over these threads.
uint32_t threads_for(uint32_t connections) {
    auto clients = static_cast<uint32_t>(client_processors().size());
    return std::clamp(std::min(connections, clients), 1u, kLanesMax);
}

uint32_t share_of(uint32_t all, uint32_t threads, uint32_t thread) {
    return all / threads + (thread < all % threads ? 1 : 0);
}

// Raises the descriptor limit: a connection needs at least one descriptor on either side, and servers inherit
// the limit of this process. Without free descriptors, a server would keep further connections waiting.
Status descriptors_for(uint32_t connections) {
    constexpr uint64_t kOthers = 64;
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    if (connections + kOthers > files.rlim_cur && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    if (connections + kOthers <= files.rlim_cur) return Status::ok();
    return failure(Code::kExhausted, "{} connections need {} open files but {} are allowed: ulimit -n {}",
                   connections, connections + kOthers, files.rlim_cur, 2 * (connections + kOthers));
}

std::unique_ptr<Accesses> accesses_for(const IoPoint& point, uint64_t span, uint64_t thread,
                                       uint64_t threads) {
    if (point.trace) return std::make_unique<TraceAccesses>(point.trace);
    Pattern pattern = point.pattern;
    pattern.span = span;
    return make_accesses(pattern, thread, threads);
}

Result<std::unique_ptr<Program>> start_target(const RemotePoint& point, const Settings& settings,
                                              Storage& storage) {
    auto listen = listen_at(point.fabric, settings, storage);
    if (!listen) return listen.status();
    auto path = storage.path("target");
    if (!path) return path.status();
    std::string backend = backend_of(point.io.method, point.io.threads, *path, storage.bytes());
    return Program::start({"wss-target", "--listen", *listen, "--volume", point.volume + "=" + backend,
                           "--reactors", std::to_string(point.reactors), "--control", "", "--auth-off",
                           "--log-level", "warning"});
}

// Writes a RAM volume once from start to end, because the first access to a page of memory is a different
// load.
Status fill(const std::string& address, const RemotePoint& point, const Settings& settings, uint64_t bytes) {
    constexpr uint32_t kChunk = 1 << 20;
    auto trace = std::make_shared<SharedTrace>();
    for (uint64_t at = 0; at + kChunk <= bytes; at += kChunk) trace->accesses.push_back({true, at, kChunk});
    if (trace->accesses.empty()) return Status::ok();
    RemoteOptions options{.link = {.slots = 4, .bytes = kChunk, .volume = point.volume}};
    std::vector<std::unique_ptr<Accesses>> accesses;
    accesses.push_back(std::make_unique<TraceAccesses>(trace));
    auto thread = RemoteLoad::create(address, options, std::move(accesses));
    if (!thread) return thread.status();
    LoadThreads threads;
    threads.push_back(std::move(*thread));
    return measure_threads(threads, {.warm_up = 0, .seconds = 0}, settings).status();
}

// While this object lives, the calling thread and the threads that it creates run on the servers' processors.
class OnServerProcessors {
  public:
    explicit OnServerProcessors(bool pin) : pin_(pin) {
        if (pin_) pin_thread(0, server_processors());
    }
    ~OnServerProcessors() {
        if (pin_) pin_thread(0, processors());
    }
    OnServerProcessors(const OnServerProcessors&) = delete;
    OnServerProcessors& operator=(const OnServerProcessors&) = delete;

  private:
    const bool pin_;
};

// Bytes of a read, or 0 if not all operations read storage.
double read_bytes_of(const IoPoint& point) {
    if (point.method == "ram" || (!point.trace && point.pattern.write)) return 0;
    if (!point.trace) return point.pattern.bytes;
    double sum = 0;
    for (const Access& access : point.trace->accesses) {
        if (access.write) return 0;
        sum += access.length;
    }
    return sum / static_cast<double>(point.trace->accesses.size());
}

// Adds the percentage of the read bytes that came from storage. A cache of the kernel or of the filesystem
// would make storage look faster than it is.
void add_reached(const IoPoint& point, Sample& sample) {
    double bytes = read_bytes_of(point);
    if (bytes > 0 && sample.storage_bytes >= 0)
        sample.more["reached_percent"] = 100 * sample.storage_bytes / bytes;
}

}  // namespace

Result<std::shared_ptr<Storage>> Storage::create(const Settings& settings, const std::string& path,
                                                 uint64_t bytes) {
    auto scratch = Scratch::create(settings.directory);
    if (!scratch) return scratch.status();
    std::shared_ptr<Storage> storage(new Storage);
    storage->scratch_ = std::move(*scratch);
    storage->given_ = path;
    storage->bytes_ = bytes;
    if (path.empty()) return storage;
    auto opened = io::open_backend("aio:" + path, {.read_only = true});
    if (!opened) return opened.status();
    storage->bytes_ = std::min(bytes, (*opened)->limits().size);
    return storage;
}

Result<std::string> Storage::path(const std::string& side) {
    if (!given_.empty()) return given_;
    std::string path = scratch_->file(side + ".img");
    if (std::find(made_.begin(), made_.end(), path) == made_.end()) {
        WSS_TRY(make_file(path, bytes_));
        made_.push_back(path);
    }
    return path;
}

Result<std::string> listen_at(const std::string& fabric, const Settings& settings, const Storage& storage) {
    static std::atomic<uint32_t> count{0};
    if (fabric == "shm") return fmt::format("shm://{}", storage.socket(fmt::format("s{}", count++)));
    if (fabric == "tcp" || fabric == "tls") return fabric + "://127.0.0.1:0";
    if (fabric == kKernelTls) return std::string("tls://127.0.0.1:0");
    if (settings.address.empty())
        return Status(Code::kInvalid,
                      "rdma needs the address of this machine's RDMA device: --address rdma://10.0.0.1");
    return settings.address + (settings.address.rfind(':') > 5 ? "" : ":0");
}

Result<Sample> measure_local(const IoPoint& point, const Settings& settings, Storage& storage,
                             const Window& window) {
    auto path = storage.path("local");
    if (!path) return path.status();
    auto backend = [&] {
        // The I/O threads of a pool run on the same processors as those of a target.
        OnServerProcessors pinned(settings.pin);
        return io::open_backend(backend_of(point.method, point.threads, *path, storage.bytes()), {});
    }();
    if (!backend) return backend.status();
    uint32_t count = threads_for(point.depth);
    LoadThreads threads;
    for (uint32_t i = 0; i < count; ++i) {
        auto thread = IoLoad::create(**backend, accesses_for(point, storage.bytes(), i, count),
                                     share_of(point.depth, count, i), point.pattern.bytes);
        if (!thread) return thread.status();
        threads.push_back(std::move(*thread));
    }
    auto sample = measure_threads(threads, window, settings);
    if (sample) add_reached(point, *sample);
    return sample;
}

Result<Sample> measure_remote(const RemotePoint& point, const Settings& settings, Storage& storage,
                              const Window& window) {
    WSS_TRY(descriptors_for(point.connections));
    std::unique_ptr<Program> target;
    std::string address = point.target;
    if (address.empty()) {
        auto started = start_target(point, settings, storage);
        if (!started) return started.status();
        target = std::move(*started);
        address = target->address();
        if (point.io.method == "ram") WSS_TRY(fill(address, point, settings, storage.bytes()));
    }
    uint32_t count = threads_for(point.connections);
    LoadThreads threads;
    for (uint32_t i = 0, first = 0; i < count; ++i) {
        RemoteOptions options{.connections = share_of(point.connections, count, i),
                              .link = {.slots = point.io.depth,
                                       .bytes = point.io.pattern.bytes,
                                       .volume = point.volume,
                                       .memory = point.memory}};
        std::vector<std::unique_ptr<Accesses>> accesses;
        for (uint32_t c = 0; c < options.connections; ++c)
            accesses.push_back(accesses_for(point.io, storage.bytes(), first++, point.connections));
        auto thread = RemoteLoad::create(address, options, std::move(accesses));
        if (!thread) return thread.status();
        threads.push_back(std::move(*thread));
    }
    std::vector<const Program*> servers = point.servers;
    if (target) servers.push_back(target.get());
    auto sample = measure_threads(threads, window, settings, servers);
    if (sample && target) {
        sample->more["server_mib"] = target->resident_mib();
        add_reached(point.io, *sample);
    }
    return sample;
}

Result<Sample> measure_echo(const EchoPoint& point, const Settings& settings, Storage& storage,
                            const Window& window) {
    WSS_TRY(descriptors_for(point.connections));
    std::unique_ptr<Program> server;
    std::string address = point.target;
    if (address.empty()) {
        auto listen = listen_at(point.fabric, settings, storage);
        if (!listen) return listen.status();
        std::vector<std::string> words{"wssbench", "echo-server", "--listen", *listen};
        if (point.fabric == kKernelTls) words.push_back("--tls-kernel");
        auto started = Program::start(words);
        if (!started) return started.status();
        server = std::move(*started);
        address = server->address();
    }
    uint32_t count = threads_for(point.connections);
    LoadThreads threads;
    for (uint32_t i = 0; i < count; ++i) {
        EchoOptions options = point.options;
        options.connections = share_of(point.connections, count, i);
        auto thread = EchoLoad::create(address, options);
        if (!thread) return thread.status();
        threads.push_back(std::move(*thread));
    }
    std::vector<const Program*> servers;
    if (server) servers.push_back(server.get());
    return measure_threads(threads, window, settings, servers);
}

Result<std::vector<uint32_t>> sizes_of(const std::vector<std::string>& words) {
    std::vector<uint32_t> sizes;
    for (const std::string& word : words) {
        auto bytes = parse_size(word);
        if (!bytes) return bytes.status();
        if (*bytes < 8 || *bytes > kEchoBytesMax)
            return failure(Code::kInvalid, "a size must be between 8 and 1M, not {}", word);
        sizes.push_back(static_cast<uint32_t>(*bytes));
    }
    return sizes;
}

void add_fabric_option(CLI::App& command, std::vector<std::string>& fabrics,
                       const std::vector<std::string>& known) {
    command
        .add_option("--fabric", fabrics,
                    fmt::format("{}; rdma needs --address; for example shm,tcp", fmt::join(known, ", ")))
        ->delimiter(',')
        ->check(CLI::IsMember(known))
        ->capture_default_str();
}

}  // namespace wss::wssbench
