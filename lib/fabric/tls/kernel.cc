// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tls/kernel.h"

#include <arpa/inet.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl3.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "lib/base/file.h"

namespace wss::fabric::tls::kernel {

constexpr size_t kAlertBytes = 2;
constexpr uint64_t kRecordBytes = 16384;
// AES-GCM also processes two blocks for each record: its tag and the rest of its last block.
constexpr uint64_t kBytesPerRecord = 32;

// --- can the kernel encrypt? ---

struct Ends {
    Descriptor listening, connecting, accepted;
};

static Result<Ends> loopback_connection() {
    const auto socket = [] { return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); };
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    Ends ends{.listening = socket(), .connecting = socket(), .accepted = {}};
    if (bind(ends.listening.get(), generic, length) == 0 && listen(ends.listening.get(), 1) == 0 &&
        getsockname(ends.listening.get(), generic, &length) == 0 &&
        connect(ends.connecting.get(), generic, length) == 0) {
        ends.accepted = Descriptor(accept4(ends.listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (ends.accepted) return ends;
    }
    return Status::from_errno(errno, "cannot connect to 127.0.0.1 to try it");
}

bool attach(int socket) noexcept {
    constexpr std::string_view kName = "tls";
    return setsockopt(socket, IPPROTO_TCP, TCP_ULP, kName.data(), kName.size()) == 0;
}

Status check() {
    auto ends = loopback_connection();
    if (!ends) return ends.status();
    const int socket = ends->connecting.get();
    if (!attach(socket))
        return errno == ENOENT ? failure(Code::kUnsupported,
                                         "the module is not loaded: run 'modprobe tls' before the start")
                               : Status::from_errno(errno, "this kernel does not support it");
    tls12_crypto_info_aes_gcm_128 key{};  // nothing is sent with it
    key.info = {.version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128};
    if (setsockopt(socket, SOL_TLS, TLS_TX, &key, sizeof key) == 0) return Status::ok();
    return Status::from_errno(errno, "the kernel does not support TLS 1.3 with AES-128-GCM");
}

bool has_checked_cipher(const void* key) noexcept {
    return static_cast<const tls_crypto_info*>(key)->cipher_type == TLS_CIPHER_AES_GCM_128;
}

// --- sending ---

ssize_t send(int socket, std::span<const iovec> from) noexcept {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(from.data());  // sendmsg does not change it
    message.msg_iovlen = from.size();
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

ssize_t send_alert(int socket, const void* alert, size_t length) noexcept {
    if (length != kAlertBytes) return -EOPNOTSUPP;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(1)> control{};
    iovec all{const_cast<void*>(alert), length};  // sendmsg does not change it
    msghdr message{};
    message.msg_iov = &all;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* type = CMSG_FIRSTHDR(&message);
    type->cmsg_level = SOL_TLS;
    type->cmsg_type = TLS_SET_RECORD_TYPE;
    type->cmsg_len = CMSG_LEN(1);
    *CMSG_DATA(type) = SSL3_RT_ALERT;
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

uint64_t cost(uint64_t sent, size_t segments) noexcept {
    // A record also ends when the kernel has no room for another segment in its list of pages.
    return sent + kBytesPerRecord * (1 + sent / kRecordBytes + segments);
}

}  // namespace wss::fabric::tls::kernel
