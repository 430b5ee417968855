// SPDX-License-Identifier: Apache-2.0
// NodeLoad: a thread that is one node of a parallel database, for the figure `affinity`. It has a session to
// the target of every node, and workers that run operators. A worker performs the accesses of one operator,
// one after another, each at the node that stores the block.
//
// All nodes begin at the same time, when every node is connected (StartingLine).
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tools/wssbench/load.h"
#include "tools/wssbench/session_link.h"

namespace wss::wssbench {

struct NodeAccess {
    uint32_t node;  // the node that stores the block
    Access access;
};

// The work that the workers of all nodes do.
//
// Thread-safety: next() is called by the threads of all nodes.
class Work {
  public:
    virtual ~Work() = default;
    // Returns the next operator of a worker, whose previous one has ended. If it has no accesses, the worker
    // stops. The result is valid until the next call for this worker.
    virtual std::span<const NodeAccess> next(uint32_t node, uint32_t worker) = 0;
};

struct NodeOptions {
    uint32_t node = 0;
    uint32_t workers = 1;
    uint32_t bytes = 512;                // length of the longest access
    std::vector<std::string> addresses;  // of the nodes' targets, for this node
    std::string volume = "bench";
};

class NodeLoad;

class StartingLine {
  public:
    // Called before the nodes' threads start.
    void add(NodeLoad& node) { nodes_.push_back(&node); }
    // Called on a node's thread when it is connected. The last call starts all nodes.
    void arrive();
    // Called on a node's thread when it has failed, so that the others do not wait for it.
    void abandon();

  private:
    std::mutex m_;
    std::vector<NodeLoad*> nodes_;
    size_t arrived_ = 0;  // guarded by m_
};

class NodeLoad final : public LoadThread {
  public:
    // `work` and `line` must outlive the thread.
    static Result<std::unique_ptr<NodeLoad>> create(const NodeOptions& options, Work& work,
                                                    StartingLine& line);
    ~NodeLoad() override;
    bool ready() const override { return started_.load(std::memory_order_relaxed); }
    // Number of accesses to the storage of other nodes. Call it after join().
    uint64_t remote_accesses() const { return remote_; }

  private:
    class Link;
    friend class Link;
    friend class StartingLine;
    struct Worker {
        std::span<const NodeAccess> accesses;
        size_t next = 0;
    };

    NodeLoad(const NodeOptions& options, Work& work, StartingLine& line);
    void begin() override;
    void wind_down() override;
    void begin_operators();
    void go_on(uint32_t worker) noexcept;
    void fail(const Status& why);
    void link_over();

    const NodeOptions options_;
    Work& work_;
    StartingLine& line_;
    Random random_;
    Network own_, others_;
    std::vector<std::unique_ptr<Link>> links_;  // by node
    std::vector<Worker> workers_;
    size_t opened_ = 0, running_ = 0, links_over_ = 0;
    uint64_t remote_ = 0;
    std::atomic<bool> started_{false};
};

}  // namespace wss::wssbench
