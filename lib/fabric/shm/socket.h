// SPDX-License-Identifier: Apache-2.0
// The Unix socket next to the rings. It carries hellos, descriptors of memory and wake-ups, and its hang-up
// shows that the peer is gone. It carries sequenced packets, so that a message arrives whole or not at all.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/base/unix_socket.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::shm {

constexpr size_t kDescriptorsMax = 4;

struct Message {
    ssize_t bytes = 0;  // 0: the peer hung up; negative errno
    size_t descriptor_count = 0;
    std::array<Descriptor, kDescriptorsMax> descriptors;
};

// Neither function blocks. send() returns 0 or a negative errno. A message that exceeds `into`, or carries
// too many descriptors, yields -EMSGSIZE.
int send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) noexcept;
Message receive(int socket, std::span<std::byte> into) noexcept;

struct Peer {
    pid_t pid = 0;  // 0: not visible from here
    uid_t uid = 0;
    std::string to_string() const;
};
// Fails unless the process at the other end has our user id or is root.
Result<Peer> check_peer(int socket);

Result<UnixListener> listen_at(const std::string& path);
// Fails with Code::kBusy if the listener's queue is full. The caller may then try again.
Result<Descriptor> connect_to(const std::string& path);

}  // namespace wss::fabric::shm
