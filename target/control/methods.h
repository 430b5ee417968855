// SPDX-License-Identifier: Apache-2.0
// What can be read and changed in a running program: a table of named methods. Whoever owns something
// (volumes, sessions, counters) registers its methods here; who serves them (http/site.h) knows none of them.
//
// Thread-safety: add everything before the server starts; call() may then be called from any thread, and so
// are the handlers: they lock what they touch and wait for nothing without a bound.
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

    // `help`: one line, with the parameters. "methods" (the list with help) is always there.
    void add(std::string name, std::string help, Handler handler) {
        add(std::move(name), Kind::kRead, std::move(help), std::move(handler));
    }
    // One that changes something: not for everyone who may read.
    void add_change(std::string name, std::string help, Handler handler) {
        add(std::move(name), Kind::kChange, std::move(help), std::move(handler));
    }
    // Adds {section: statistics()} to the answer of "stats".
    void add_statistics(std::string section, Statistics statistics);

    // kNotFound, with the name that is nearest.
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

// What a process is, for ping.
struct Program {
    std::string name;     // of its file
    std::string role;     // of a wss-target: --role; "": it has none
    std::string version;  // what it calls itself
};
void add_basic_methods(Methods& methods, const Program& program);
// The section "tls" of stats: what the tls:// addresses of this process have seen.
void add_tls_statistics(Methods& methods);
// volume.create, .resize, .delete, .set, .list and the section "volumes" of stats. `volumes` outlives
// `methods`.
void add_volume_methods(Methods& methods, volume::VolumeSet& volumes);

}  // namespace wss::control
