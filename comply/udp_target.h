// UdpTarget: an implementation behind sockets. Packets go over UDP, commands over the control protocol of
// docs/comply-control.md.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "comply/json_line.h"
#include "comply/target.h"

namespace mroce::comply {

struct UdpTargetOptions {
  HostPort control;
  // The tester's address; zero: the one from which it reaches the control address, or on loopback another
  // one of 127.0.0.0/8, so that the two do not share a host.
  Gid from;
};

class UdpTarget final : public Target {
 public:
  // Connects, says hello. The error is a sentence.
  static tl::expected<std::unique_ptr<UdpTarget>, std::string> open(const UdpTargetOptions& options);
  ~UdpTarget() override;

  std::string name() const override { return implementation_; }
  bool has(Feature feature) const override;

  Started start(const StartOptions& options) override;
  void stop() override;
  Region create_mr(uint32_t length, uint32_t access) override;
  void destroy_mr(uint32_t mr) override;
  Bytes read_memory(uint32_t mr, uint32_t offset, uint32_t length) override;
  void write_memory(uint32_t mr, uint32_t offset, std::span<const std::byte> bytes) override;
  uint32_t create_srq(uint32_t max_wr) override;
  QueuePair create_qp(uint32_t max_send_wr, uint32_t max_recv_wr, std::optional<uint32_t> srq) override;
  void connect_qp(uint32_t qp, const ConnectOptions& options) override;
  void modify_qp(uint32_t qp, std::string_view state) override;
  std::string query_qp(uint32_t qp) override;
  void destroy_qp(uint32_t qp) override;
  void post_recv(uint32_t qp, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) override;
  void post_srq_recv(uint32_t srq, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) override;
  void post_send(uint32_t qp, const Work& work) override;
  std::vector<Completion> poll(uint32_t qp) override;
  void link(uint32_t plane, bool up) override;

  Gid tester_address(uint32_t plane) const override;
  Gid stranger_address() const override { return stranger_; }
  uint8_t tester_slot() const override { return slot_; }
  uint16_t tester_port() const override { return static_cast<uint16_t>(base_ + slot_); }
  UdpAddress source_address(const Origin& origin) const override { return socket_for(origin).local; }
  void send(std::span<const std::byte> datagram, const Origin& origin) override;
  std::optional<Arrived> receive(Time until) override;
  Time now() const override;
  Time unix_time(Time at) const override { return at + unix_offset_; }
  ControlWaits control_waits() const override { return waits_; }
  void limit_answers(Time end) override { answers_until_ = end; }

 private:
  struct Socket {
    net::FileDescriptor fd;
    UdpAddress local;
    bool source = false;  // not the listening one
    bool stranger = false;
  };
  explicit UdpTarget(UdpTargetOptions options);
  tl::expected<void, std::string> connect_control();
  void take_hello(const nlohmann::json& hello);
  tl::expected<std::string, std::string> exchange(const std::string& line, Deadline deadline);
  nlohmann::json ask(nlohmann::json request);
  Started take_started(const nlohmann::json& answer) const;
  uint32_t answer_number(const nlohmann::json& answer, std::string_view key, uint64_t most = UINT32_MAX);
  Socket bind_stranger() const;
  void open_sockets(const Started& started);
  tl::expected<Socket, std::string> bind_udp(const Gid& address, uint16_t port) const;
  Socket bind_any_port(const Gid& address) const;
  const Socket& socket_for(const Origin& origin) const;
  std::optional<Arrived> take(const Socket& socket);

  UdpTargetOptions options_;
  std::unique_ptr<LineSocket> control_;
  std::string implementation_;
  std::vector<Feature> features_;
  Gid address_, stranger_;
  UdpAddress target_;
  uint16_t base_ = 0;
  uint8_t slot_ = 0;
  std::vector<Socket> sockets_;  // the listening one, the sources, the stranger's
  size_t turn_ = 0;
  Nanos unix_offset_{0};
  ControlWaits waits_;
  Time answers_until_ = kNever;
};

}  // namespace mroce::comply
