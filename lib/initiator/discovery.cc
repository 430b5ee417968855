// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/discovery.h"

#include <algorithm>
#include <utility>

#include "lib/initiator/options.h"

namespace wss::initiator {

namespace {
template <uint8_t page>
wire::Cdb page_question() {
    return wire::make_inquiry_page(page, 512);
}
}  // namespace

const Discovery::Step Discovery::kListSteps[] = {
    {[] { return wire::make_inquiry(96); }, &Discovery::take_inquiry, -1, true, "INQUIRY"},
    {page_question<wire::kVpdIdentification>, &Discovery::take_identification, -1, true, "INQUIRY page 83"},
    {nullptr, nullptr, -1, false, nullptr},
};

const Discovery::Step Discovery::kProbeSteps[] = {
    {[] { return wire::make_inquiry(96); }, &Discovery::take_inquiry, -1, true, "INQUIRY"},
    {page_question<wire::kVpdSupportedPages>, &Discovery::take_pages, -1, true, "INQUIRY page 00"},
    {page_question<wire::kVpdIdentification>, &Discovery::take_identification, -1, true, "INQUIRY page 83"},
    {[] { return wire::make_read_capacity16(32); }, &Discovery::take_capacity, -1, true,
     "READ CAPACITY (16)"},
    {page_question<wire::kVpdBlockLimits>, &Discovery::take_limits, wire::kVpdBlockLimits, false,
     "INQUIRY page B0"},
    {page_question<wire::kVpdBlockCharacteristics>, &Discovery::take_characteristics,
     wire::kVpdBlockCharacteristics, false, "INQUIRY page B1"},
    {page_question<wire::kVpdProvisioning>, &Discovery::take_provisioning, wire::kVpdProvisioning, false,
     "INQUIRY page B2"},
    {[] { return wire::make_mode_sense10(wire::kModeCaching, 252); }, &Discovery::take_mode, -1, false,
     "MODE SENSE page 08"},
    {nullptr, nullptr, -1, false, nullptr},
};

Discovery::Discovery(AdminSubmitter& submitter) : submitter_(submitter), answer_(kAnswerMax) {}

void Discovery::list(Listed done) {
    WSS_ASSERT(!busy(), "one discovery operation runs at a time");
    listed_ = std::move(done);
    luns_.clear();
    found_.clear();
    at_ = 0;
    asking_luns_ = true;
    query(0, wire::make_report_luns(kAnswerMax));
}

void Discovery::probe(uint64_t lun, Probed done) {
    WSS_ASSERT(!busy(), "one discovery operation runs at a time");
    probed_ = std::move(done);
    luns_ = {lun};
    at_ = 0;
    next_unit();
}

void Discovery::query(uint64_t lun, const wire::Cdb& cdb) {
    std::fill(answer_.begin(), answer_.end(), std::byte{});
    buffer_ = {answer_.data(), answer_.size()};
    request_.operation = Operation::kAdmin;
    request_.lun = lun;
    request_.cdb = cdb;
    request_.length = answer_.size();
    request_.buffers = {&buffer_, 1};
    request_.done = [](Request&, void* context) noexcept { static_cast<Discovery*>(context)->answered(); };
    request_.context = this;
    if (!submitter_.submit_admin(request_)) answered();
}

void Discovery::answered() {
    if (asking_luns_)
        luns_answered();
    else
        step_answered();
}

Status Discovery::failed(const char* what) const {
    Code code = request_.outcome == Outcome::kTimedOut ? Code::kTimedOut : Code::kUnavailable;
    if (request_.outcome == Outcome::kOk)
        return failure(Code::kInvalid, "the target's answer to {} for logical unit {} is malformed", what,
                       request_.lun);
    return failure(code, "{} for logical unit {}: {}", what, request_.lun, describe(request_));
}

void Discovery::luns_answered() {
    asking_luns_ = false;
    wire::LunList list;
    if (request_.outcome != Outcome::kOk ||
        !wire::parse_report_luns({answer_.data(), static_cast<size_t>(request_.received)}, list))
        return fail(failed("REPORT LUNS"));
    for (uint32_t i = 0; i < std::min(list.count, kVolumesMax); ++i)
        if (uint64_t lun = list.lun(i); lun != wire::kBadLun) luns_.push_back(lun);
    next_unit();
}

void Discovery::next_unit() {
    if (at_ == luns_.size()) {
        Listed done = std::exchange(listed_, nullptr);
        return done(Status::ok(), std::move(found_));
    }
    info_ = VolumeInfo{};
    info_.lun = luns_[at_];
    pages_ = {};
    limits_ = {};
    provisioning_ = {};
    provisioned_ = ours_ = skip_ = false;
    step_ = listed_ ? kListSteps : kProbeSteps;
    query(info_.lun, step_->make());
}

void Discovery::next_step() {
    do {
        ++step_;
    } while (step_->make != nullptr && step_->needs_page >= 0 &&
             !pages_.has(static_cast<uint8_t>(step_->needs_page)));
    if (step_->make == nullptr) return unit_done();
    query(info_.lun, step_->make());
}

void Discovery::step_answered() {
    bool ok = request_.outcome == Outcome::kOk;
    bool parsed = ok && (this->*step_->take)({answer_.data(), static_cast<size_t>(request_.received)});
    // A refusal is an answer too; a missing answer is not.
    bool refused = request_.outcome == Outcome::kRefused || request_.outcome == Outcome::kUnsupported ||
                   request_.outcome == Outcome::kVolumeGone || request_.outcome == Outcome::kMediumError;
    if (skip_) {
        if (probed_) return fail(failure(Code::kNotFound, "logical unit {} is not a disk", info_.lun));
        return unit_done();
    }
    if (parsed || (refused && !step_->required)) return next_step();
    // A unit that was deleted since REPORT LUNS does not fail the list.
    if (refused && listed_) {
        skip_ = true;
        return unit_done();
    }
    fail(failed(step_->what));
}

void Discovery::unit_done() {
    if (probed_) {
        settle_limits();
        Probed done = std::exchange(probed_, nullptr);
        return done(Status::ok(), std::move(info_));
    }
    if (!skip_) found_.push_back({info_.name, info_.lun, info_.naa});
    ++at_;
    next_unit();
}

void Discovery::fail(const Status& why) {
    if (Listed listed = std::exchange(listed_, nullptr)) listed(why, {});
    if (Probed probed = std::exchange(probed_, nullptr)) probed(why, {});
}

bool Discovery::take_inquiry(wire::Bytes answer) {
    wire::StandardInquiry inquiry;
    if (!wire::parse_standard_inquiry(answer, inquiry)) return false;
    skip_ = !inquiry.present || inquiry.device_type != 0;
    ours_ = std::string_view(inquiry.vendor.data()) == "WSS";
    return true;
}

bool Discovery::take_pages(wire::Bytes answer) {
    return wire::parse_vpd_pages(answer, pages_);
}

bool Discovery::take_identification(wire::Bytes answer) {
    wire::Identification identification;
    if (!wire::parse_identification(answer, identification)) return false;
    info_.naa = identification.naa;
    if (ours_ && !identification.name.empty())
        // The designator is the volume's name, a colon, and the identity, which contains no colon.
        info_.name = identification.name.substr(0, identification.name.rfind(':'));
    else
        info_.name =
            identification.has_naa ? fmt::format("naa.{:016x}", info_.naa) : fmt::format("lun-{}", info_.lun);
    // The target chooses the name, and it may be printed on terminals.
    for (char& c : info_.name)
        if (c < ' ' || c == 0x7f) c = '?';
    return true;
}

bool Discovery::take_capacity(wire::Bytes answer) {
    wire::Capacity capacity;
    if (!wire::parse_capacity16(answer, capacity)) return false;
    if (capacity.blocks > uint64_t{INT64_MAX} / capacity.block_size) return false;
    info_.block_size = capacity.block_size;
    info_.physical_block = std::max(capacity.physical_block, capacity.block_size);
    info_.size = capacity.blocks * capacity.block_size;
    provisioned_ = capacity.provisioning;
    return true;
}

bool Discovery::take_limits(wire::Bytes answer) {
    return wire::parse_block_limits(answer, limits_);
}

bool Discovery::take_characteristics(wire::Bytes answer) {
    wire::BlockCharacteristics characteristics;
    if (!wire::parse_block_characteristics(answer, characteristics)) return false;
    info_.rotational = characteristics.rotational();
    return true;
}

bool Discovery::take_provisioning(wire::Bytes answer) {
    return wire::parse_provisioning(answer, provisioning_);
}

bool Discovery::take_mode(wire::Bytes answer) {
    wire::ModeInfo mode;
    if (!wire::parse_mode_sense10(answer, mode)) return false;
    info_.read_only = mode.write_protected;
    info_.fua = mode.dpo_fua;
    info_.write_cache = mode.has_caching && mode.write_cache;
    return true;
}

// Converts limits in blocks to bytes. Where the target has no limit, those of this library apply.
void Discovery::settle_limits() {
    uint64_t block = info_.block_size;
    uint64_t transfer = limits_.transfer_max == 0 ? kTransferMax : limits_.transfer_max * block;
    info_.transfer_max = static_cast<uint32_t>(std::clamp<uint64_t>(transfer, block, kTransferMax));
    info_.transfer_optimal =
        static_cast<uint32_t>(std::min<uint64_t>(limits_.transfer_optimal * block, kTransferMax));
    // The count field of each of these commands has 32 bits.
    auto bytes = [block](uint64_t blocks) { return std::min<uint64_t>(blocks, UINT32_MAX) * block; };
    info_.discard = provisioned_ && provisioning_.unmap && limits_.unmap_blocks_max > 0;
    info_.discard_max = info_.discard ? bytes(limits_.unmap_blocks_max) : 0;
    info_.discard_granularity = std::max<uint64_t>(limits_.unmap_granularity, 1) * block;
    // WRITE SAME without data is a late addition that few targets support; a WSS target does.
    info_.write_zeroes = ours_;
    info_.write_zeroes_max =
        ours_ ? bytes(limits_.write_same_max == 0 ? UINT32_MAX : limits_.write_same_max) : 0;
    // Twice the compared data must fit in the smallest bounce arena.
    info_.compare_max =
        static_cast<uint32_t>(std::min<uint64_t>(limits_.compare_and_write_max * block, kBounceMin / 2));
}

}  // namespace wss::initiator
