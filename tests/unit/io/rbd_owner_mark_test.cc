// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/io/rbd/owner_mark.h"

namespace wss::io {
namespace {

const std::string kName = "9075709d410fcf8f", kNumber = "0123456789abcdef0123456789abcdef";

TEST(OwnerMark, is_parsed_as_it_was_written) {
    const OwnerMark mark{kName, kNumber};
    EXPECT_EQ(parse_owner_mark(mark.text()), mark);
}

TEST(OwnerMark, is_not_recognized_in_text_of_other_programs) {
    for (const std::string& text :
         {std::string(), kName, kName + " ", " " + kNumber, kName + " \xff\xfe", kName + " " + kNumber + " ",
          kName + "  " + kNumber, kName + " " + kNumber + "0", kName + " number", kName + " a\n",
          kName + " A", std::string(1 << 20, 'a')})
        EXPECT_FALSE(parse_owner_mark(text)) << text.substr(0, 64);
}

}  // namespace
}  // namespace wss::io
