// SPDX-License-Identifier: Apache-2.0
// Methods: a table of named methods that read or change a running program. Each part of the program (volumes,
// sessions, counters) registers its methods here. The server (http/site.h) depends on none of them.
//
// Thread-safety: all methods must be added before the server starts. From then on any thread may call call(),
// which calls the handlers. Handlers lock the data that they use, and every wait in them has a bound.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/base/status.h"

namespace wss::volume {
class VolumeSet;
}

namespace wss::control {

class Methods {
  public:
    using Handler = std::function<Result<nlohmann::json>(const nlohmann::json& params)>;
    // A part of the answer to "stats".
    using Statistics = std::function<nlohmann::json()>;

    enum class Kind : uint8_t { kRead, kChange };

    // Adds a method that only reads. `help`: one line that includes the parameters. The methods "methods"
    // (the list with help) and "stats" always exist.
    void add(std::string name, std::string help, Handler handler) {
        add(std::move(name), Kind::kRead, std::move(help), std::move(handler));
    }
    // Adds a method that changes something. It is not available at a read-only port.
    void add_change(std::string name, std::string help, Handler handler) {
        add(std::move(name), Kind::kChange, std::move(help), std::move(handler));
    }
    // Adds {section: statistics()} to the answer of "stats".
    void add_statistics(std::string section, Statistics statistics);

    // Returns the kind of the method, or kNotFound with the most similar name.
    Result<Kind> kind(const std::string& name) const;
    Result<nlohmann::json> call(const std::string& name, const nlohmann::json& params) const;

  private:
    struct Method {
        Kind kind;
        std::string help;
        Handler handler;
    };
    void add(std::string name, Kind kind, std::string help, Handler handler);
    nlohmann::json list() const;
    nlohmann::json statistics() const;

    std::map<std::string, Method> methods_;
    std::map<std::string, Statistics> statistics_;
};

// Identification of a process, for ping.
struct Program {
    std::string name;     // of the executable
    std::string role;     // of a wss-target: --role; "": none
    std::string version;  // as displayed
};
// Adds the method "ping".
void add_basic_methods(Methods& methods, const Program& program);
// The section "tls" of stats: counters of the tls:// addresses of this process.
void add_tls_statistics(Methods& methods);
// The section "rdma_devices" of stats: the state of each RDMA device of this process.
void add_device_statistics(Methods& methods);
// The methods volume.create, .resize, .reopen, .delete, .set, .access and .list, and the section "volumes" of
// stats. `volumes` must outlive `methods`.
void add_volume_methods(Methods& methods, volume::VolumeSet& volumes);

}  // namespace wss::control
