// SPDX-License-Identifier: Apache-2.0
// A follower count that always equals the length of the list. One put_all writes the list, the count and the
// follower's own entry. Readers therefore never see a count that does not match the list, in whatever order
// the reads and writes are executed.
//
// In this example, each user's list has only one writer. Two writers could read the same list and both write
// it again, which would lose a follower. Read Atomic isolation permits this. A condition on the list would
// prevent it.
//
//     c++ -std=c++20 -I. -o followers Documentation/examples/kv/followers.cc libwss.a … && ./followers
//     tcp://…,tcp://…
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>

#include "lib/kv/client/client.h"

using namespace wss;

static std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
    return parts;
}

// Writer: `fan` follows `idol`. `list` contains the followers of `idol` that the writer has added.
static Status follow(kv::Client& client, const std::string& fan, const std::string& idol,
                     std::vector<std::string>& list) {
    list.push_back(fan);
    std::string text;
    for (const std::string& one : list) text += one + "\n";
    kv::PutAll put;
    put.items.push_back({"followers:" + idol, text, false});
    put.items.push_back({"followers-count:" + idol, std::to_string(list.size()), false});
    put.items.push_back({"follows:" + fan + ":" + idol, "yes", false});
    client.run(put);
    return put.status;
}

// Reader: reads the count, the list and one follower's own entry in one transaction. Returns false if they
// contradict each other.
static Result<bool> agrees(kv::Client& client, const std::string& idol, const std::string& fan) {
    kv::GetAll get;
    for (const std::string& key :
         {"followers:" + idol, "followers-count:" + idol, "follows:" + fan + ":" + idol})
        get.items.emplace_back().key = key;
    client.run(get);
    if (!get.status) return get.status;
    std::vector<std::string> list = split(get.items[0].value, '\n');
    size_t count = get.items[1].found ? std::stoul(get.items[1].value) : 0;
    bool listed = std::find(list.begin(), list.end(), fan) != list.end();
    return count == list.size() && listed == get.items[2].found;
}

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: followers TARGET[,TARGET...]\n");
        return 2;
    }
    kv::Options options;
    options.partitions = split(argv[1], ',');
    auto writer = kv::Client::connect(options);
    options.one_sided = kv::OneSided::kOn;
    auto reader = kv::Client::connect(options);
    if (!writer || !reader) {
        std::fprintf(stderr, "followers: %s\n",
                     (writer ? reader.status() : writer.status()).to_string().c_str());
        return 1;
    }
    constexpr int kFans = 300;
    Status written;
    std::thread writing([&] {
        std::vector<std::string> list;
        for (int fan = 0; fan < kFans && written; ++fan)
            written = follow(**writer, "fan" + std::to_string(fan), "ada", list);
    });
    int reads = 0, contradictions = 0;
    Status read;
    for (; reads < 2 * kFans && read; ++reads) {
        auto good = agrees(**reader, "ada", "fan" + std::to_string(reads % kFans));
        read = good.status();
        contradictions += good && !*good ? 1 : 0;
    }
    writing.join();
    for (const Status& status : {written, read})
        if (!status) std::fprintf(stderr, "followers: %s\n", status.to_string().c_str());
    std::printf("%d followers written, %d reads, %d contradictions\n", kFans, reads, contradictions);
    return contradictions == 0 && written && read ? 0 : 1;
}
