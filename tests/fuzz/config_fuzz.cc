// SPDX-License-Identifier: Apache-2.0
// Fuzzes the texts that a target reads: the configuration, the options --volume and --kv-access, filters,
// sizes and the state file. Each parser must return a value or an error with a message. An accepted value
// must obey its rules, and a state that was written must be readable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/size.h"
#include "lib/io/filter/filter.h"
#include "target/control/config.h"
#include "target/volume/state_file.h"
#include "tests/fuzz/require.h"

namespace {

using wss::volume::StoredVolume;

void require_text(const wss::Status& status) {
    FUZZ_REQUIRE(!status.text().empty());
}

void fuzz_config(const std::string& text) {
    wss::control::TargetConfig config;
    wss::Status status = wss::control::parse_target_config(text, "f.toml", config);
    if (!status) return require_text(status);
    FUZZ_REQUIRE(config.reactors <= wss::control::kReactorsMax);
    for (const auto& volume : config.volumes) {
        FUZZ_REQUIRE(volume.declared && wss::volume::check_name(volume.name).is_ok());
        FUZZ_REQUIRE(volume.block_size == 0 || volume.block_size == 512 || volume.block_size == 4096);
    }
    (void)wss::control::check_target_config(config);
}

void fuzz_state(const std::string& text) {
    auto volumes = wss::volume::parse_state(text, "f.json");
    if (!volumes) return require_text(volumes.status());
    auto again = wss::volume::parse_state(wss::volume::format_state(*volumes), "f.json");
    FUZZ_REQUIRE(again.is_ok() && again->size() == volumes->size());
    for (size_t i = 0; i < volumes->size(); ++i) FUZZ_REQUIRE((*again)[i].identity == (*volumes)[i].identity);
}

void fuzz_words(const std::string& text) {
    auto volume = wss::control::parse_volume_option(text);
    if (volume) FUZZ_REQUIRE(!volume->backend.empty());
    auto rights = wss::kv::AccessRules::parse({text});
    if (!rights) require_text(rights.status());
    // The status of a partition shows accepted rules unchanged.
    if (rights)
        FUZZ_REQUIRE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
    auto rule = wss::io::parse_filter_rule(text);
    if (rule) FUZZ_REQUIRE(rule->error > 0 && (rule->to == 0 || rule->to > rule->from));
    auto size = wss::parse_size(text);
    if (size) FUZZ_REQUIRE(*wss::parse_size(wss::format_size(*size)) == *size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 3) {
        case 0:
            fuzz_config(text);
            break;
        case 1:
            fuzz_state(text);
            break;
        default:
            fuzz_words(text);
    }
    return 0;
}
