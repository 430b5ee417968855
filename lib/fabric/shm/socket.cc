// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace wss::fabric::shm {

constexpr int kBacklog = 1024;

int send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) noexcept {
    iovec vec{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsMax)]{};
    msghdr message{};
    message.msg_iov = &vec;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void take_descriptors(msghdr& header, Message& out) {
    for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(one) + i * sizeof fd, sizeof fd);
            Descriptor owned(fd);
            if (out.descriptor_count < kDescriptorsMax)
                out.descriptors[out.descriptor_count++] = std::move(owned);
        }
    }
}

Message receive(int socket, std::span<std::byte> into) noexcept {
    Message out;
    iovec vec{.iov_base = into.data(), .iov_len = into.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsMax)];
    msghdr header{};
    header.msg_iov = &vec;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    do {
        out.bytes = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (out.bytes < 0 && errno == EINTR);
    if (out.bytes < 0) {
        out.bytes = -errno;
        return out;
    }
    take_descriptors(header, out);
    if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) out.bytes = -EMSGSIZE;
    return out;
}

std::string Peer::to_string() const {
    return fmt::format("pid {} uid {}", pid, uid);
}

Result<Peer> check_peer(int socket) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
        return Status::from_errno(errno, "cannot identify the peer's process");
    if (credentials.uid != geteuid() && credentials.uid != 0)
        return failure(Code::kPermission,
                       "the peer is user {}; only user {} and root may share memory with this process",
                       credentials.uid, geteuid());
    return Peer{.pid = credentials.pid, .uid = credentials.uid};
}

static Descriptor make_socket() {
    return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int connect_error(int socket, const sockaddr_un& address) {
    return connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

Result<UnixListener> listen_at(const std::string& path) {
    Result<UnixListener> listener = UnixListener::open(path, SOCK_SEQPACKET | SOCK_NONBLOCK, kBacklog);
    if (!listener) return listener.status().within("cannot listen on shm");
    return listener;
}

Result<Descriptor> connect_to(const std::string& path) {
    Result<sockaddr_un> address = unix_address(path);
    if (!address) return address.status().within("shm");
    Descriptor socket = make_socket();
    if (!socket) return Status::from_errno(errno, "cannot create a socket");
    int error = connect_error(socket.get(), *address);
    if (error == 0) return socket;
    if (error == EAGAIN) return failure(Code::kBusy, "shm://{}: too many peers are connecting", path);
    if (error == ENOENT || error == ECONNREFUSED)
        return failure(Code::kRefused,
                       "no process listens on shm://{}: start the server there or correct the path", path);
    return Status::from_errno(error, fmt::format("cannot connect to shm://{}", path));
}

}  // namespace wss::fabric::shm
