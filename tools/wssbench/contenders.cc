// SPDX-License-Identifier: Apache-2.0
// This is written for clarity, not for speed. Only the class Wss uses the product's algorithm.
#include "tools/wssbench/contenders.h"

#include <algorithm>
#include <array>
#include <limits>
#include <list>
#include <set>
#include <unordered_map>
#include <vector>

#include "lib/base/assert.h"
#include "lib/cache/index.h"

namespace wss::wssbench {

using cache::LineKey;

namespace {

struct KeyHash {
    size_t operator()(LineKey key) const { return static_cast<size_t>(cache::hash(key)); }
};
template <typename Value>
using KeyMap = std::unordered_map<LineKey, Value, KeyHash>;

// A queue of keys with fast lookup. The front is the oldest key.
class Queue {
  public:
    bool contains(LineKey key) const { return where_.count(key) != 0; }
    size_t size() const { return order_.size(); }
    void push(LineKey key) { where_[key] = order_.insert(order_.end(), key); }
    void erase(LineKey key) {
        order_.erase(where_.at(key));
        where_.erase(key);
    }
    LineKey pop() {
        LineKey oldest = order_.front();
        erase(oldest);
        return oldest;
    }

  private:
    std::list<LineKey> order_;
    KeyMap<std::list<LineKey>::iterator> where_;
};

// Names as in the paper.
class Arc {
  public:
    explicit Arc(size_t c) : c_(c) {}
    bool access(LineKey x) {
        if (t1_.contains(x) || t2_.contains(x)) {
            (t1_.contains(x) ? t1_ : t2_).erase(x);
            t2_.push(x);
            return true;
        }
        if (b1_.contains(x)) {
            p_ = std::min<double>(static_cast<double>(c_), p_ + std::max(1.0, ratio(b2_, b1_)));
            return from_ghost(b1_, x, false);
        }
        if (b2_.contains(x)) {
            p_ = std::max(0.0, p_ - std::max(1.0, ratio(b1_, b2_)));
            return from_ghost(b2_, x, true);
        }
        make_room();
        t1_.push(x);
        return false;
    }

  private:
    static double ratio(const Queue& a, const Queue& b) {
        return static_cast<double>(a.size()) / static_cast<double>(b.size());
    }
    bool from_ghost(Queue& ghosts, LineKey x, bool in_b2) {
        replace(in_b2);
        ghosts.erase(x);
        t2_.push(x);
        return false;
    }
    void replace(bool in_b2) {
        double t1 = static_cast<double>(t1_.size());
        if (t1_.size() != 0 && (t1 > p_ || (in_b2 && t1 == p_)))
            b1_.push(t1_.pop());
        else if (t2_.size() != 0)
            b2_.push(t2_.pop());
    }
    void make_room() {
        size_t all = t1_.size() + t2_.size() + b1_.size() + b2_.size();
        if (t1_.size() + b1_.size() == c_) {
            if (t1_.size() < c_) {
                b1_.pop();
                replace(false);
            } else {
                t1_.pop();
            }
        } else if (all >= c_) {
            if (all == 2 * c_) b2_.pop();
            replace(false);
        }
    }

    const size_t c_;
    double p_ = 0;
    Queue t1_, t2_, b1_, b2_;
};

class S3Fifo {
  public:
    explicit S3Fifo(size_t lines) : lines_(lines), small_max_(std::max<size_t>(lines / 10, 1)) {}
    bool access(LineKey key) {
        if (auto found = uses_.find(key); found != uses_.end()) {
            found->second = std::min(found->second + 1, 3);
            return true;
        }
        if (small_.size() + main_.size() >= lines_) evict();
        if (ghosts_.contains(key)) {
            ghosts_.erase(key);
            main_.push(key);
        } else {
            small_.push(key);
        }
        uses_[key] = 0;
        return false;
    }

  private:
    void evict() {
        while (small_.size() + main_.size() >= lines_)
            (small_.size() >= small_max_ || main_.size() == 0) ? evict_small() : evict_main();
    }
    void evict_small() {
        LineKey key = small_.pop();
        if (uses_[key] > 1) {
            uses_[key] = 0;
            return main_.push(key);
        }
        uses_.erase(key);
        ghosts_.push(key);
        if (ghosts_.size() > lines_) ghosts_.pop();
    }
    void evict_main() {
        LineKey key = main_.pop();
        if (uses_[key] == 0) {
            uses_.erase(key);
            return;
        }
        --uses_[key];
        main_.push(key);
    }

    const size_t lines_, small_max_;
    Queue small_, main_, ghosts_;
    KeyMap<int> uses_;
};

constexpr size_t kNeverAgain = std::numeric_limits<size_t>::max();

// For each access, the index of the next access to its line.
std::vector<size_t> next_uses(const Trace& trace) {
    std::vector<size_t> next(trace.accesses.size(), kNeverAgain);
    KeyMap<size_t> last;
    for (size_t i = trace.accesses.size(); i-- > 0;) {
        auto [found, fresh] = last.try_emplace(trace.accesses[i], i);
        if (!fresh) {
            next[i] = found->second;
            found->second = i;
        }
    }
    return next;
}

template <typename Algorithm>
uint64_t run(const Trace& trace, uint32_t lines) {
    Algorithm algorithm(lines);
    uint64_t hits = 0;
    for (LineKey key : trace.accesses) hits += algorithm.access(key);
    return hits;
}

class Lru {
  public:
    explicit Lru(size_t lines) : lines_(lines) {}
    bool access(LineKey key) {
        bool hit = queue_.contains(key);
        if (hit) queue_.erase(key);
        if (queue_.size() == lines_) queue_.pop();
        queue_.push(key);
        return hit;
    }

  private:
    const size_t lines_;
    Queue queue_;
};

// Performs the operations of target/cache for a read, without data.
class Wss {
  public:
    explicit Wss(uint32_t lines) : index_({.geometry = {}, .transient_lines = 16}) {
        for (uint32_t volume = 0; volume < 64; ++volume) index_.add_volume(volume);
        WSS_ASSERT(index_.add_engine({0}, {.identity = 1, .weight = lines, .slots = lines}).is_ok(),
                   "the first");
    }
    bool access(LineKey key) {
        cache::Line* line = index_.open(key);
        WSS_ASSERT(line != nullptr, "one operation at a time");
        bool hit = line->valid().contains(index_.geometry().all());
        cache::LineOp op;
        op.sub_blocks = index_.geometry().all();
        op.access = hit ? cache::Access::kShared : cache::Access::kExclusive;
        index_.enter(*line, op);
        if (hit)
            index_.touch(*line, op.sub_blocks);
        else if (index_.place(*line, 1) == cache::Placed::kDone)
            index_.filled(*line, op.sub_blocks);
        cache::Granted granted;
        index_.leave(op, granted);
        return hit;
    }

  private:
    cache::Index index_;
};

constexpr std::array<Contender, 5> kContenders = {{{"wss", wss_hits},
                                                   {"lru", lru_hits},
                                                   {"arc", arc_hits},
                                                   {"s3-fifo", s3fifo_hits},
                                                   {"belady", belady_hits}}};

}  // namespace

uint64_t wss_hits(const Trace& trace, uint32_t lines) {
    return run<Wss>(trace, lines);
}
uint64_t lru_hits(const Trace& trace, uint32_t lines) {
    return run<Lru>(trace, lines);
}
uint64_t arc_hits(const Trace& trace, uint32_t lines) {
    return run<Arc>(trace, lines);
}
uint64_t s3fifo_hits(const Trace& trace, uint32_t lines) {
    return run<S3Fifo>(trace, lines);
}

uint64_t belady_hits(const Trace& trace, uint32_t lines) {
    std::vector<size_t> next = next_uses(trace);
    std::set<size_t>
        cached;  // the next use of each line in the cache, without lines that are never used again
    uint64_t hits = 0;
    for (size_t i = 0; i < trace.accesses.size(); ++i) {
        hits += cached.erase(i);
        if (next[i] == kNeverAgain) continue;
        cached.insert(next[i]);
        if (cached.size() > lines) cached.erase(std::prev(cached.end()));
    }
    return hits;
}

std::span<const Contender> contenders() {
    return kContenders;
}

}  // namespace wss::wssbench
