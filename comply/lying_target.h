// LyingTarget: a target that is wrong on purpose, to test the suite itself. Each lie changes what the real
// target behind it sends, or what it gets to see, as one wrong implementation would: a vector that is shifted
// by one, a PSEQ that is used twice, a bad trailer that is believed. At least one assertion must catch each
// of them (comply/mutants_test.cc).
//
// The lies were written from the specification alone, without looking at the assertions. Lies about what
// happens within an implementation (a duplicate that is placed, a threshold that never decays) are in
// core/mroce/mutants.def.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "comply/target.h"
#include "core/wire/codec.h"

namespace mroce::comply {

// What a lie remembers of the traffic so far. Ids and numbers as the wire has them.
struct Memories {
  std::map<uint32_t, uint32_t> numbers;   // whatever the lie wants to remember, by its own key
  std::array<uint8_t, 16> reset_token{};  // that the target gave away
  uint64_t nonce = 0;                     // of the INIT that it sent last
  uint32_t target_id = 0;                 // DCID of packets to the target
  uint32_t next_cpsn = 0;                 // of the target
  uint32_t count = 0;
};

// One datagram without its trailer, and what becomes of it.
struct Told {
  Bytes bytes;
  Ecn ecn = Ecn::kNotEct;
  bool swallowed = false;
  bool trailer_is_wrong = false;
  bool trailer_was_right = true;
  bool from_stranger = false;
  Memories& memories;

  wire::Type type() const { return static_cast<wire::Type>(std::to_integer<uint8_t>(bytes[0]) & 0x0f); }
  bool is(wire::Type wanted) const { return bytes.size() >= wire::kCommonBytes && type() == wanted; }
  bool is_data(size_t least = wire::kDataBytes) const {
    return is(wire::Type::kData) && bytes.size() >= least;
  }
  wire::DataOp op() const { return static_cast<wire::DataOp>(bytes[22]); }
  bool is(wire::DataOp wanted) const {
    return is_data() && op() == wanted && bytes.size() >= wire::header_bytes(wanted);
  }
  bool has_flag(uint8_t flag) const { return (std::to_integer<uint8_t>(bytes[1]) & flag) != 0; }
};

struct Lie {
  std::string_view name;
  std::string_view section;   // of the specification that it breaks
  std::string_view sentence;  // what this implementation does wrong
  bool outgoing = true;       // changes what the target sends; else what it sees
  void (*tell)(Told& told) = nullptr;
};
std::span<const Lie> lies();

class LyingTarget final : public Target {
 public:
  LyingTarget(std::unique_ptr<Target> truth, const Lie& lie) : truth_(std::move(truth)), lie_(lie) {}

  std::string name() const override { return std::string(lie_.name); }
  // A lie changes datagrams under way and makes a CRC: mode 2 would call that an attack.
  bool has(Feature feature) const override { return feature != Feature::kMode2 && truth_->has(feature); }
  Started start(const StartOptions& options) override;
  void stop() override { truth_->stop(); }
  Region create_mr(uint32_t length, uint32_t access) override { return truth_->create_mr(length, access); }
  void destroy_mr(uint32_t mr) override { truth_->destroy_mr(mr); }
  Bytes read_memory(uint32_t mr, uint32_t offset, uint32_t length) override {
    return truth_->read_memory(mr, offset, length);
  }
  void write_memory(uint32_t mr, uint32_t offset, std::span<const std::byte> bytes) override {
    truth_->write_memory(mr, offset, bytes);
  }
  uint32_t create_srq(uint32_t max_wr) override { return truth_->create_srq(max_wr); }
  QueuePair create_qp(uint32_t max_send_wr, uint32_t max_recv_wr, std::optional<uint32_t> srq) override {
    return truth_->create_qp(max_send_wr, max_recv_wr, srq);
  }
  void connect_qp(uint32_t qp, const ConnectOptions& options) override { truth_->connect_qp(qp, options); }
  void modify_qp(uint32_t qp, std::string_view state) override { truth_->modify_qp(qp, state); }
  std::string query_qp(uint32_t qp) override { return truth_->query_qp(qp); }
  void destroy_qp(uint32_t qp) override { truth_->destroy_qp(qp); }
  void post_recv(uint32_t qp, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) override {
    truth_->post_recv(qp, wr_id, mr, offset, length);
  }
  void post_srq_recv(uint32_t srq, uint64_t wr_id, uint32_t mr, uint32_t offset, uint32_t length) override {
    truth_->post_srq_recv(srq, wr_id, mr, offset, length);
  }
  void post_send(uint32_t qp, const Work& work) override { truth_->post_send(qp, work); }
  std::vector<Completion> poll(uint32_t qp) override { return truth_->poll(qp); }
  void link(uint32_t plane, bool up) override { truth_->link(plane, up); }
  Gid tester_address(uint32_t plane) const override { return truth_->tester_address(plane); }
  Gid stranger_address() const override { return truth_->stranger_address(); }
  uint8_t tester_slot() const override { return truth_->tester_slot(); }
  uint16_t tester_port() const override { return truth_->tester_port(); }
  UdpAddress source_address(const Origin& origin) const override { return truth_->source_address(origin); }
  void send(std::span<const std::byte> datagram, const Origin& origin) override;
  std::optional<Arrived> receive(Time until) override;
  Time now() const override { return truth_->now(); }

 private:
  void remember(const Told& told, bool outgoing);

  std::unique_ptr<Target> truth_;
  const Lie& lie_;
  Memories memories_;
};

}  // namespace mroce::comply
