// SPDX-License-Identifier: Apache-2.0
// Discovery: finds the volumes of a target and their properties. Sends one query at a time, each an admin
// request; lib/wire parses the untrusted answers.
//
//   list()   REPORT LUNS, then for each unit INQUIRY and page 83: its name and identity
//   probe()  one unit: identity, capacity, limits, supported operations
//
// Thread-safety: belongs to the session's thread. One operation at a time. `done` is called once, in bounded
// time, as each query is a request with a deadline.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "lib/base/status.h"
#include "lib/initiator/request.h"
#include "lib/initiator/volume.h"

namespace wss::initiator {

class AdminSubmitter {
  public:
    // Returns true when `request.done` will be called later, false when the request has ended
    // (request.outcome).
    virtual bool submit_admin(Request& request) noexcept = 0;

  protected:
    ~AdminSubmitter() = default;
};

class Discovery {
  public:
    using Listed = std::function<void(const Status&, std::vector<VolumeName>)>;
    using Probed = std::function<void(const Status&, VolumeInfo)>;

    explicit Discovery(AdminSubmitter& submitter);
    bool busy() const { return listed_ || probed_; }
    void list(Listed done);
    void probe(uint64_t lun, Probed done);

  private:
    // A query about one logical unit.
    struct Step {
        wire::Cdb (*make)();
        bool (Discovery::*take)(wire::Bytes answer);
        int needs_page;  // -1, or the vital product data page that must exist
        bool required;   // a refusal fails the probe
        const char* what;
    };
    static const Step kListSteps[];
    static const Step kProbeSteps[];
    static constexpr uint32_t kAnswerMax = 16384;

    void query(uint64_t lun, const wire::Cdb& cdb);
    void answered();
    void luns_answered();
    void next_unit();
    void next_step();
    void step_answered();
    void unit_done();
    void fail(const Status& why);
    Status failed(const char* what) const;

    bool take_inquiry(wire::Bytes answer);
    bool take_pages(wire::Bytes answer);
    bool take_identification(wire::Bytes answer);
    bool take_capacity(wire::Bytes answer);
    bool take_limits(wire::Bytes answer);
    bool take_characteristics(wire::Bytes answer);
    bool take_provisioning(wire::Bytes answer);
    bool take_mode(wire::Bytes answer);
    void settle_limits();

    AdminSubmitter& submitter_;
    Listed listed_;
    Probed probed_;
    Request request_;
    iovec buffer_{};
    std::vector<std::byte> answer_;

    bool asking_luns_ = false;
    std::vector<uint64_t> luns_;
    size_t at_ = 0;  // position in luns_
    std::vector<VolumeName> found_;

    const Step* step_ = nullptr;
    VolumeInfo info_;
    bool skip_ = false;  // the unit is not a disk
    bool ours_ = false;  // vendor is WSS: page 83 has a volume name
    wire::VpdPages pages_;
    wire::BlockLimits limits_;
    wire::Provisioning provisioning_;
    bool provisioned_ = false;
};

}  // namespace wss::initiator
