// SPDX-License-Identifier: Apache-2.0
// Listening, and connect requests of peers.
//
// The removal of the device of a listener's address ends the listener in the kernel. It then listens again
// as soon as the address is available. Meanwhile address() does not change. A listener for all addresses
// continues: the kernel adds the devices that appear.
//
// An unanswered request receives no events: librdmacm holds them back until accept(), and the id of the
// request has no handler. So another thread may take over the request (create()) while this thread polls.
#pragma once

#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/verbs/connection.h"
#include "lib/fabric/verbs/handles.h"
#include "lib/fabric/verbs/poller.h"

namespace wss::fabric::verbs {

class VerbsListener final : public Listener, public CmHandler, public ListNode<> {
  public:
    static Result<std::unique_ptr<Listener>> create(VerbsPoller& poller, const Address& address,
                                                    ListenHandler& handler);
    ~VerbsListener() { unlink(); }
    Address address() const override { return address_; }
    void on_cm_event(const CmEvent& event) noexcept override;
    // Listens again after an interruption. Returns false if that is not possible yet.
    bool listen_again() noexcept;

  private:
    VerbsListener(VerbsPoller& poller, Address address, ListenHandler& handler)
        : poller_(poller), handler_(handler), address_(std::move(address)) {}
    Status start();
    Status listen();
    void interrupt() noexcept;

    VerbsPoller& poller_;
    ListenHandler& handler_;
    Address address_;
    SocketAddress where_;
    CmId id_;
};

class VerbsConnectRequest final : public ConnectRequest {
  public:
    VerbsConnectRequest(CmId id, const CmEvent& event);
    ~VerbsConnectRequest() override;
    std::span<const std::byte> data() const override { return data_; }
    std::string peer() const override;
    Result<std::unique_ptr<Connection>> create(Poller& poller, const ConnectionOptions& options,
                                               ConnectionHandler& handler) override;
    void reject(std::span<const std::byte> data) noexcept override;

  private:
    CmId id_;  // empty: answered
    VerbsConnection::Offer offer_;
    std::vector<std::byte> data_;
};

}  // namespace wss::fabric::verbs
