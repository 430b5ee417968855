// SPDX-License-Identifier: Apache-2.0
// The figures of paper D that need the driver. A measurer of the source tree boots a virtual machine that
// counts instructions (tests/lab) and measures all of them in one boot of each kernel. With LAB=host it
// measures on this machine, in real seconds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/wssbench/figure.h"

namespace wss::wssbench {

struct LabOptions {
    std::vector<std::string> networks = {"rxe"}, kernels = {"installed"}, kernel_arguments;
    std::string module;  // path of wss.ko; empty: that of the build

    // Number of parts of each figure: one for each kernel and network.
    size_t parts() const;
    // The command-line options that select the machines.
    std::vector<std::string> words() const;
};

// Adds --rdma, --kernel, --kernel-argument.
void add_lab_options(CLI::App& command, LabOptions& options);

// The names of the driver's figures, in the order of measurement.
std::vector<std::string> driver_figures();

// The parts of figures that the measurer has printed: {figure, kernel, network, measured: {rows, bounds, …}}.
class LabParts {
  public:
    explicit LabParts(size_t wanted) : wanted_(wanted) {}
    void take(const Json& part);
    // All parts of a figure joined into one. Bound and ratio are those of the first part. "interrupted" means
    // that a part is missing. If a part has an error, only that part is returned. Null if there is no part.
    Json joined(const std::string& figure) const;

  private:
    const size_t wanted_;  // parts of each figure
    std::map<std::string, std::vector<Json>> parts_;
};

class DriverFigures {
  public:
    explicit DriverFigures(LabOptions options) : options_(std::move(options)), parts_(options_.parts()) {}
    // Measures all of `names`. After an error or an interruption the finished parts are kept.
    void measure(const std::vector<std::string>& names, const Context& context);
    // A figure that consists of the measured parts, or the reason why there is none.
    Result<Json> figure(const std::string& name, const Context& context) const;
    const Status& failure_of_it() const { return failure_; }

  private:
    const LabOptions options_;
    LabParts parts_;
    Status failure_;
};

}  // namespace wss::wssbench
