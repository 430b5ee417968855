// SPDX-License-Identifier: Apache-2.0
// A client of an HTTP server at the level of bytes, which can also send malformed requests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

namespace wss::http::test {

struct Reply {
    int status = 0;  // 0: the server closed the connection
    std::string head, body;
    nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
    std::string message() const {
        const nlohmann::json answer = json();
        return answer.is_object() && answer.contains("error") ? answer["error"].value("message", "") : body;
    }
};

// One connection. The socket's timeout limits every wait.
class Client {
  public:
    explicit Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path.c_str());
        finish_connect(reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
    // Connects to 127.0.0.1.
    explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        finish_connect(reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
    // Adopts a connected socket.
    struct Connected {};
    Client(int fd, Connected) : fd_(fd), connected_(true) { limit_waits(); }
    ~Client() { close(fd_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    bool connected() const { return connected_; }
    bool send_text(const std::string& text) {
        return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
    }
    Reply get(const std::string& path, const std::string& host = "localhost") {
        send_text("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
        return receive();
    }
    Reply post(const std::string& path, const std::string& body) {
        send_text("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
        return receive();
    }
    void end_sending() { shutdown(fd_, SHUT_WR); }
    Reply receive() {
        Reply reply;
        size_t end;
        while ((end = buffered_.find("\r\n\r\n")) == std::string::npos)
            if (!receive_some()) return {};
        reply.head = buffered_.substr(0, end);
        buffered_.erase(0, end + 4);
        reply.status = std::atoi(reply.head.c_str() + std::strlen("HTTP/1.1 "));
        const size_t length_at = reply.head.find("Content-Length: ");
        const size_t length = length_at == std::string::npos
                                  ? 0
                                  : std::strtoul(reply.head.c_str() + length_at + 16, nullptr, 10);
        while (buffered_.size() < length)
            if (!receive_some()) return {};
        reply.body = buffered_.substr(0, length);
        buffered_.erase(0, length);
        return reply;
    }

  private:
    void limit_waits() {
        timeval patience{30, 0};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    }
    void finish_connect(const sockaddr* address, socklen_t length) {
        limit_waits();
        connected_ = connect(fd_, address, length) == 0;
    }
    bool receive_some() {
        char chunk[4096];
        const ssize_t got = recv(fd_, chunk, sizeof chunk, 0);
        if (got > 0) buffered_.append(chunk, static_cast<size_t>(got));
        return got > 0;
    }

    int fd_;
    bool connected_ = false;
    std::string buffered_;
};

}  // namespace wss::http::test
