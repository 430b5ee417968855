// SPDX-License-Identifier: Apache-2.0
// RecordedSizes: what the state file records of a volume's size, to outlast a restart. Each method that
// changes it is one step of a resize, a loss or a start.
//
// Thread-safety: none; its owner guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace wss::volume {

class RecordedSizes {
  public:
    // As in the file.
    struct Fields {
        uint64_t resized = 0;
        uint64_t part = 0;
        uint64_t growing = 0;
        bool shrinking = false;
        bool followed = false;
        uint64_t cut_from = 0;
        std::string cut_ownership;
        bool operator==(const Fields&) const = default;
    };
    RecordedSizes() = default;
    explicit RecordedSizes(Fields fields) : now_(std::move(fields)) {}
    const Fields& fields() const { return now_; }
    bool operator==(const RecordedSizes&) const = default;

    // The size that the operator gave the volume, or that it took to follow its storage. The next start
    // requires it. 0: never, or the next start requires no size.
    uint64_t resized() const { return now_.resized; }
    // The part of its storage that the operator gave the volume at run time; 0: never, or all of it.
    uint64_t part() const { return now_.part; }
    // The operator's growth to this size has begun, and the storage may have it or not; 0: none.
    uint64_t growing() const { return now_.growing; }
    // A shrink to resized() has begun and may be incomplete. Data beyond that must not reappear.
    bool is_shrinking() const { return now_.shrinking; }
    // That shrink followed the storage, all of which the volume covered. The storage may have any size since.
    bool followed() const { return now_.followed; }
    // The volume covered all of its storage. Without size=, it does so after each start, whatever size the
    // storage has then. A part of the configuration counts too: it ends with its size=.
    bool covered_all() const { return now_.followed || (now_.part == 0 && !now_.shrinking); }
    // The size of the backend that this shrink, or its repetition, reduces to resized(); 0: none, because the
    // storage has shrunk before the volume.
    uint64_t cut_from() const { return now_.cut_from; }
    // The backend's ownership() then; no shrink after another owner had it.
    const std::string& cut_ownership() const { return now_.cut_ownership; }

    struct Shrink {
        uint64_t to = 0;
        bool followed = false;
        std::optional<uint64_t> part;  // nullopt: unchanged
        uint64_t cut_from = 0;
        std::string cut_ownership;
    };
    void begin_shrink(Shrink shrink);
    // `required`: for resized(). `part`: nullopt: unchanged.
    void end_shrink(uint64_t required, std::optional<uint64_t> part);
    void begin_growth(uint64_t to) { now_.growing = to; }
    void fail_growth() { now_.growing = 0; }
    void end_growth(uint64_t required, std::optional<uint64_t> part);
    // The shrink of the volume that is recorded must not shrink the storage.
    void forget_cut();
    // The storage is lost: others write to it.
    void lose();
    // The volume is open again after its storage was lost. Others have since written the data that an
    // incomplete shrink would remove. `part`: nullopt: unchanged.
    void reopen(uint64_t required, std::optional<uint64_t> part);
    // The volume is open after a start, with this size and part. If a growth had begun, that is its result.
    void open(uint64_t size, uint64_t part);
    // The volume covers all of its storage, whatever size that has.
    void require_no_size() { now_.resized = 0; }

  private:
    Fields now_;
};

}  // namespace wss::volume
