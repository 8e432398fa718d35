// Connection: a scripted peer of one connection at packet level, built on the codec alone.
//
// It numbers what it sends (CPSN, PSEQ of DATA and of control datagrams for each path), keeps the receiver's
// state of §5.3 and §5.4, and unless told otherwise has good manners: it acknowledges DATA, answers PROBEs,
// accepts streams and confirms CLOSE. Every number can be overridden in SendOptions; nothing is repeated by
// itself.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>

#include "comply/sealing.h"
#include "comply/tester.h"

namespace mroce::comply {

// Of a connection in mode 2; in mode 0 everything has its CRC.
enum class Trailer : uint8_t {
  kRight,
  kCrc,       // as in mode 0, nothing encrypted
  kWrongKey,  // sealed with a key that nobody has agreed on
};

struct SendOptions {
  uint8_t path = 0;
  uint8_t flags = 0;
  uint8_t epoch = 0;
  std::optional<uint32_t> cpsn = {};
  std::optional<uint32_t> pseq = {};
  std::optional<uint32_t> dcid = {};
  std::optional<uint32_t> ts = {};
  Origin origin = {};
  std::string note = {};
  std::function<void(Bytes&)> shape = {};   // changes the datagram before its trailer is made
  std::function<void(Bytes&)> damage = {};  // the same after that
  Trailer trailer = Trailer::kRight;
  Bytes* hold = nullptr;  // the finished datagram goes here and is not sent
};

struct Sent {  // a transmission of the tester
  wire::Data data;
  Bytes payload;
  uint8_t path = 0;
  uint32_t pseq = 0;
  uint32_t ts = 0;
};

// What the target's sending half on a stream of the tester is.
struct PeerHalf {
  uint32_t source_qpn = 0;
  uint32_t incarnation = 0;
  uint32_t first_msn = 0;
  uint32_t granted = 0;
};

class Connection {
 public:
  explicit Connection(Tester& tester);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // ---- handshake
  wire::Init init;  // what the tester says of itself; may be changed until it is sent
  void list_planes(uint32_t planes);
  // Before INIT, or before the INIT of the target is answered: mode 2 is offered (with mode 0, too, if
  // `offer` says so) or chosen.
  void use_mode2(const Bytes& psk, uint8_t offer = 0x04);
  Sealing& sealing() { return *sealing_; }
  size_t init_bytes() const;  // of the padded datagram
  void send_init(const SendOptions& options = {});
  const Packet& open();  // as initiator: INIT, INIT_ACK
  void answer_init(const Packet& init_packet, const SendOptions& options = {});  // with INIT_ACK
  void take_init_ack(const Packet& packet);
  const wire::Init& peer() const { return *peer_; }
  uint32_t mtu() const { return std::min<uint32_t>(init.payload_mtu, peer().payload_mtu); }
  uint32_t window() const { return std::min(init.cpsn_window, peer().cpsn_window); }

  // ---- manners
  bool acknowledge = true;
  bool answer_probes = true;
  bool accept_streams = true;
  bool confirm_close = true;
  bool move_limit = true;       // of the CPSN limit that ACKs carry
  uint32_t grant = 1000;        // credits in ACCEPT
  uint8_t rd_atomic = 16;       // in ACCEPT
  uint8_t min_rnr_timer = 1;    // in ACCEPT: 10 us
  uint8_t host_penalty = 0;     // in ACKs
  Match lose;                   // what arrives and matches is lost
  std::set<uint8_t> congested;  // paths whose datagrams count as marked
  std::function<void(wire::Ack&)> shape_ack;

  // ---- sending
  Sent send_data(wire::Data data, Bytes payload = {}, const SendOptions& options = {});
  Sent send_again(const Sent& sent, SendOptions options = {});  // same packet, fresh PSEQ
  Sent send_control(wire::DataOp op, uint32_t qpn, const wire::StreamControl& control, uint32_t msn = 0,
                    const SendOptions& options = {});
  wire::Ack current_ack(std::optional<uint8_t> path = std::nullopt) const;
  void send_ack(const wire::Ack& ack, const SendOptions& options = {});
  void send_ack() { send_ack(current_ack()); }
  void send_probe(const wire::Probe& probe, size_t datagram_bytes = 0, const SendOptions& options = {});
  void send_close(uint32_t cack, const SendOptions& options = {});
  void send_retry(uint32_t dcid, const wire::Retry& retry);
  void send_reset(const std::array<uint8_t, 16>& token, const SendOptions& options = {});
  // Header and body (header included in `encode`) with everything that SendOptions may change.
  wire::Common header(wire::Type type, const SendOptions& options);
  void send_body(Bytes datagram, const SendOptions& options);
  uint32_t next_cpsn() const { return next_cpsn_; }
  uint32_t next_pseq(uint8_t path) const { return init.first_pseq + pseqs_[path]; }
  // Numbers of a gap that the tester leaves.
  void skip_pseq(uint8_t path, uint32_t count = 1) { pseqs_[path] += count; }
  uint32_t take_cpsn() { return next_cpsn_++; }

  // ---- what the target said
  uint32_t cack() const { return cack_; }  // the highest received
  bool accepted(const Sent& sent) const;   // by CACK or vector
  void expect_accepted(const Sent& sent, const std::string& what = "the acknowledgement");
  // No ACK may accept it for a while; a NAK may come.
  void expect_not_accepted(const Sent& sent, const std::string& what, Nanos within = millis(20));
  const Packet& expect_nak(const Sent& sent, wire::NakCode code);

  // ---- receiving
  uint32_t base() const { return base_; }        // lowest CPSN that has not come
  const PeerHalf& half(uint32_t own_qpn) const;  // RuleBroken if the target has opened none
  void grant_credit(uint32_t own_qpn, uint32_t limit);
  bool mine(const Packet& packet) const { return packet.header && packet.header->dcid == init.scid; }
  Tester& tester() const { return tester_; }
  bool take(Packet& packet);                     // by the Tester; true if it was for this connection
  size_t unopened() const { return unopened_; }  // datagrams of the target that no key opened

 private:
  struct Path {
    bool seen = false;
    wire::PathBlock block;
    Time at{};
  };
  void take_data(Packet& packet);
  void take_stream_control(const Packet& packet);
  void take_probe(const Packet& packet);
  void open_packet(Packet& packet);
  void agree(bool initiator, std::span<const std::byte> init, std::span<const std::byte> init_ack);
  uint64_t full_pseq(const wire::Common& header) const;
  void finish(Bytes& datagram, Trailer trailer) const;
  void note_arrival(const Packet& packet);

  Tester& tester_;
  std::optional<wire::Init> peer_;
  std::optional<Sealing> sealing_;
  bool sealed_ = false;  // keys are there
  Bytes sent_init_;
  size_t unopened_ = 0;
  uint32_t next_cpsn_ = 0;
  std::array<uint32_t, wire::kMaxPaths> pseqs_{};
  std::array<uint32_t, wire::kMaxPaths> control_pseqs_{};
  uint32_t cack_ = 0;
  uint32_t base_ = 0;
  std::set<uint32_t> above_base_;
  std::array<Path, wire::kMaxPaths> paths_{};
  std::map<uint16_t, PeerHalf> halves_;
};

}  // namespace mroce::comply
