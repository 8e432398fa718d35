#include "comply/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mroce::comply {

using wire::DataOp;
using wire::Type;

namespace {

bool at_or_after(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) >= 0;
}

uint32_t clock_of(Time now) {
  return static_cast<uint32_t>(ns_of(now) / 16);
}

}  // namespace

Connection::Connection(Tester& tester) : tester_(tester) {
  Rng& rng = tester.rng();
  init.security = 1;
  init.scid = static_cast<uint32_t>(rng.next()) | 1;
  for (auto& byte : init.endpoint_id) byte = static_cast<uint8_t>(rng.next());
  for (auto& byte : init.reset_token) byte = static_cast<uint8_t>(rng.next());
  init.nonce = rng.next();
  init.listen_port = tester.target().tester_port();
  init.payload_mtu = 1024;  // fits every link, and three packets are a message of moderate size
  init.max_paths = 1;
  init.max_streams = 1000;
  init.cpsn_window = 16384;
  init.first_cpsn = static_cast<uint32_t>(rng.next());
  init.first_pseq = static_cast<uint32_t>(rng.next());
  init.receive_buffer = 4 << 20;
  list_planes(1);
  tester_.attach(*this);
}

Connection::~Connection() {
  tester_.detach(*this);
}

void Connection::list_planes(uint32_t planes) {
  init.nports = static_cast<uint8_t>(planes);
  for (uint32_t i = 0; i < planes; ++i) {
    init.ports[i].address = tester_.target().tester_address(i);
    init.ports[i].prefix_bits = 120;
  }
}

// ---- handshake

size_t Connection::init_bytes() const {
  return std::max<size_t>(wire::kMinInitBytes, size_t{init.payload_mtu} + (sealing_ ? 72 : 60));
}

void Connection::use_mode2(const Bytes& psk, uint8_t offer) {
  sealing_.emplace(tester_.rng(), psk);
  init.security = offer;
  init.has_key_share = true;
  init.key_share = sealing_->key_share();
}

// Both without trailers.
void Connection::agree(bool initiator, std::span<const std::byte> init_body,
                       std::span<const std::byte> init_ack) {
  Tester::check(sealing_->agree(initiator, peer_->key_share, init_body, init_ack),
                "the public key of the target makes the result all zero");
  sealing_->set_peer_first_pseq(peer_->first_pseq);
  sealed_ = true;
}

void Connection::send_init(const SendOptions& options) {
  next_cpsn_ = base_ = init.first_cpsn;
  Bytes out(init_bytes() + 1000);
  SendOptions with = options;
  with.dcid = options.dcid.value_or(0);
  out.resize(wire::encode_init(header(Type::kInit, with), init, init_bytes() - wire::kTrailerBytes, out));
  sent_init_ = out;
  send_body(std::move(out), with);
}

const Packet& Connection::open() {
  send_init();
  const Packet& answer = tester_.expect(
      [this](const Packet& p) { return p.is(Type::kInitAck) && mine(p) && p.init; }, "INIT_ACK");
  take_init_ack(answer);
  return answer;
}

void Connection::take_init_ack(const Packet& packet) {
  peer_ = *packet.init;
  base_ = peer_->first_cpsn;
  cack_ = init.first_cpsn;
  if (!sealing_ || peer_->security != 2) return;
  Tester::check(peer_->has_key_share, "INIT_ACK of mode 2 has no KEY_SHARE");
  const std::span<const std::byte> all(packet.bytes);
  agree(true, sent_init_, all.first(all.size() - wire::kTagBytes));
  Tester::check(sealing_->open(all).has_value(), "the tag of INIT_ACK is wrong");
}

void Connection::answer_init(const Packet& init_packet, const SendOptions& options) {
  peer_ = *init_packet.init;
  base_ = peer_->first_cpsn;
  init.nonce = peer_->nonce;
  init.security = sealing_ ? 2 : 0;
  init.payload_mtu = std::min(init.payload_mtu, peer_->payload_mtu);
  init.cpsn_window = std::min(init.cpsn_window, peer_->cpsn_window);
  next_cpsn_ = cack_ = init.first_cpsn;
  Bytes out(init_packet.bytes.size() + 1000);
  const size_t trailer = sealing_ ? wire::kTagBytes : wire::kTrailerBytes;
  out.resize(wire::encode_init(header(Type::kInitAck, {}), init, init_packet.bytes.size() - trailer, out));
  if (sealing_) {
    const std::span<const std::byte> theirs(init_packet.bytes);
    agree(false, theirs.first(theirs.size() - wire::kTrailerBytes), out);
  }
  send_body(std::move(out), options);
}

// ---- sending

wire::Common Connection::header(Type type, const SendOptions& options) {
  wire::Common out;
  out.type = type;
  out.flags = options.flags;
  if (sealed_ && type != Type::kInit && type != Type::kReset) out.flags |= sealing_->phase;
  out.path = options.path;
  out.epoch = options.epoch;
  out.dcid = options.dcid.value_or(peer_ ? peer_->scid : 0);
  out.ts = options.ts.value_or(clock_of(tester_.now()));
  const size_t path = options.path % wire::kMaxPaths;
  if (type == Type::kData) {
    out.pseq = options.pseq ? *options.pseq : init.first_pseq + pseqs_[path]++;
  } else {
    out.pseq = options.pseq ? *options.pseq : control_pseqs_[path]++;
  }
  return out;
}

void Connection::send_body(Bytes datagram, const SendOptions& options) {
  if (options.shape) options.shape(datagram);
  std::optional<Bytes> plain;
  if (sealed_) plain = datagram;
  finish(datagram, options.trailer);
  if (options.damage) options.damage(datagram);
  if (options.hold != nullptr) {
    *options.hold = std::move(datagram);
    return;
  }
  tester_.send(std::move(datagram), options.origin, options.note, plain);
}

// The 64-bit number that a PSEQ of the tester stands for.
uint64_t Connection::full_pseq(const wire::Common& header) const {
  if (header.type != Type::kData) return header.pseq;
  const uint64_t expected = uint64_t{init.first_pseq} + pseqs_[header.path % wire::kMaxPaths];
  return wire::expand32(header.pseq, expected);
}

void Connection::finish(Bytes& datagram, Trailer trailer) const {
  wire::Common header;
  wire::decode_common(datagram, header);
  const bool crc = header.type == Type::kInit || header.type == Type::kReset || header.type == Type::kRetry;
  if (!sealed_ || crc || trailer == Trailer::kCrc) return append_trailer(datagram);
  PhaseSecret keys = sealing_->tx;
  if (trailer == Trailer::kWrongKey) keys.bytes.fill(0x5a);
  keys.seal(datagram, full_pseq(header));
}

Sent Connection::send_data(wire::Data data, Bytes payload, const SendOptions& options) {
  data.cpsn = options.cpsn ? *options.cpsn : next_cpsn_++;
  const wire::Common head = header(Type::kData, options);
  Bytes out(wire::kMaxHeaderBytes);
  out.resize(wire::encode_data(head, data, out.data()));
  out.insert(out.end(), payload.begin(), payload.end());
  send_body(std::move(out), options);
  return {data, std::move(payload), options.path, head.pseq, head.ts};
}

Sent Connection::send_again(const Sent& sent, SendOptions options) {
  options.cpsn = sent.data.cpsn;
  options.flags |= wire::flag::kRetransmit;
  return send_data(sent.data, sent.payload, options);
}

Sent Connection::send_control(DataOp op, uint32_t qpn, const wire::StreamControl& control, uint32_t msn,
                              const SendOptions& options) {
  wire::Data data;
  data.op = op;
  data.stream = static_cast<uint16_t>(qpn);
  data.msn = msn;
  data.length = wire::kStreamControlBytes;
  Bytes payload(wire::kStreamControlBytes);
  wire::encode_stream_control(control, payload.data());
  return send_data(data, std::move(payload), options);
}

wire::Ack Connection::current_ack(std::optional<uint8_t> only) const {
  wire::Ack ack;
  ack.cack = base_;
  ack.cpsn_limit = (move_limit ? base_ : peer().first_cpsn) + window();
  ack.host_penalty = host_penalty;
  for (const Path& path : paths_) {
    if (!path.seen || (only && path.block.path != *only) || ack.nblocks == wire::kMaxPathBlocks) continue;
    wire::PathBlock block = path.block;
    block.ack_delay =
        static_cast<uint16_t>(std::clamp<int64_t>((tester_.now() - path.at).count() / 64, 0, 65535));
    ack.blocks[ack.nblocks++] = block;
  }
  return ack;
}

void Connection::send_ack(const wire::Ack& ack, const SendOptions& options) {
  Bytes out(4096);
  out.resize(wire::encode_ack(header(Type::kAck, options), ack, out));
  send_body(std::move(out), options);
}

void Connection::send_probe(const wire::Probe& probe, size_t datagram_bytes, const SendOptions& options) {
  Bytes out(std::max<size_t>(4096, datagram_bytes));
  const size_t pad_to = datagram_bytes < wire::kTrailerBytes ? 0 : datagram_bytes - wire::kTrailerBytes;
  out.resize(wire::encode_probe(header(Type::kProbe, options), probe, pad_to, out));
  send_body(std::move(out), options);
}

void Connection::send_close(uint32_t cack, const SendOptions& options) {
  Bytes out(64);
  out.resize(wire::encode_close(header(Type::kClose, options), {cack, 0}, out));
  send_body(std::move(out), options);
}

void Connection::send_reset(const std::array<uint8_t, 16>& token, const SendOptions& options) {
  Bytes out(64);
  out.resize(wire::encode_reset(header(Type::kReset, options), {token}, out));
  send_body(std::move(out), options);
}

// Before there is a connection: `dcid` is the SCID of the target's INIT.
void Connection::send_retry(uint32_t dcid, const wire::Retry& retry) {
  const SendOptions options{.pseq = 0, .dcid = dcid};
  Bytes out(128);
  out.resize(wire::encode_retry(header(Type::kRetry, options), retry, out));
  send_body(std::move(out), options);
}

// ---- what the target said

bool Connection::accepted(const Sent& sent) const {
  if (at_or_after(cack_, sent.data.cpsn + 1)) return true;
  for (auto packet = tester_.log().rbegin(); packet != tester_.log().rend(); ++packet) {
    if (packet->sent || !packet->ack || !mine(*packet)) continue;
    const wire::PathBlock* block = packet->block(sent.path);
    if (block != nullptr && says_received(*block, sent.pseq)) return true;
    if (packet->at + seconds(1) < tester_.now()) break;
  }
  return false;
}

void Connection::expect_accepted(const Sent& sent, const std::string& what) {
  tester_.until([&] { return accepted(sent); }, what);
}

void Connection::expect_not_accepted(const Sent& sent, const std::string& what, Nanos within) {
  tester_.run_for(within);
  Tester::check(!accepted(sent), what + " was acknowledged");
}

const Packet& Connection::expect_nak(const Sent& sent, wire::NakCode code) {
  const uint32_t cpsn = sent.data.cpsn;
  const Packet& packet =
      tester_.expect([&](const Packet& p) { return mine(p) && p.nak(cpsn) != nullptr; }, "a NAK");
  Tester::check(packet.nak(cpsn)->code == code,
                fmt::format("the NAK has code {}, not {}", int(packet.nak(cpsn)->code), int(code)));
  return packet;
}

// ---- receiving

// Until INIT_ACK has been taken there are no keys.
void Connection::open_packet(Packet& packet) {
  const Type kind = packet.header->type;
  const bool sealed_ack = packet.init && packet.init->security == 2 && (packet.init->flags & 1) == 0;
  if (kind == Type::kInit || kind == Type::kRetry || kind == Type::kVersion || kind == Type::kReset ||
      (kind == Type::kInitAck && !sealed_ack))
    return;
  decode_opened(packet, sealing_->open(packet.bytes));
  packet.key_phase = sealing_->opened_phase();
  if (packet.sealed) return;
  ++unopened_;
  packet.note = "no key opens it";
}

bool Connection::take(Packet& packet) {
  if (sealed_ && peer_ && mine(packet)) open_packet(packet);
  if (!packet.good_trailer || !peer_ || !mine(packet)) return false;
  if (packet.data) take_data(packet);
  if (packet.probe) take_probe(packet);
  if (packet.ack && at_or_after(packet.ack->cack, cack_)) cack_ = packet.ack->cack;
  if (packet.is(Type::kClose) && packet.close && confirm_close) {
    Bytes out(64);
    out.resize(wire::encode_close(header(Type::kCloseAck, {}), {base_, 0}, out));
    send_body(std::move(out), {});
  }
  return true;
}

void Connection::note_arrival(const Packet& packet) {
  const wire::Common& head = *packet.header;
  Path& path = paths_[head.path % wire::kMaxPaths];
  wire::PathBlock& block = path.block;
  const bool first = !path.seen;
  path.seen = true;
  block.path = head.path;
  ++block.rx_count;
  if (packet.ecn == Ecn::kCe || congested.contains(head.path)) ++block.ce_count;
  const int64_t ahead = first ? 1 : static_cast<int32_t>(head.pseq - block.largest);
  if (ahead > 0) {
    std::array<uint64_t, 4> shifted{};
    for (size_t bit = 0; !first && ahead < 256 && bit + static_cast<size_t>(ahead) < 256; ++bit) {
      const size_t to = bit + static_cast<size_t>(ahead);
      shifted[to / 64] |= (block.vector[bit / 64] >> (bit % 64) & 1) << (to % 64);
    }
    shifted[0] |= 1;
    block.vector = shifted;
    block.largest = head.pseq;
    block.ts_echo = head.ts;
    path.at = packet.at;
  } else if (-ahead < 256) {
    block.vector[static_cast<size_t>(-ahead) / 64] |= uint64_t{1} << (static_cast<size_t>(-ahead) % 64);
  }
}

void Connection::take_data(Packet& packet) {
  if (lose && lose(packet)) {
    packet.note = "lost by the tester";
    return;
  }
  note_arrival(packet);
  const uint32_t cpsn = packet.data->cpsn;
  const bool fresh = at_or_after(cpsn, base_) && !above_base_.contains(cpsn);
  if (fresh) above_base_.insert(cpsn);
  while (above_base_.erase(base_) != 0) ++base_;
  if (acknowledge) {
    wire::Ack ack = current_ack(packet.header->path);
    if (shape_ack) shape_ack(ack);
    send_ack(ack);
  }
  if (fresh && packet.control) take_stream_control(packet);
}

void Connection::take_stream_control(const Packet& packet) {
  if (packet.data->op != DataOp::kStreamOpen || !accept_streams) return;
  const wire::StreamControl& open = *packet.control;
  halves_[packet.data->stream] = {open.src_qpn, open.incarnation, packet.data->msn, grant};
  wire::StreamControl accept;
  accept.src_qpn = open.dst_qpn;
  accept.dst_qpn = open.src_qpn;
  accept.incarnation = open.incarnation;
  accept.credit_limit = grant;
  accept.rd_atomic = rd_atomic;
  accept.min_rnr_timer = min_rnr_timer;
  send_control(DataOp::kStreamAccept, open.src_qpn, accept);
}

void Connection::take_probe(const Packet& packet) {
  if (!answer_probes) return;
  if (lose && lose(packet)) return;
  Bytes out(64);
  out.resize(wire::encode_probe_ack(header(Type::kProbeAck, {}), {packet.probe->token}, out));
  send_body(std::move(out), {});
  if (!packet.has(wire::flag::kAckRequest) || !acknowledge) return;
  wire::Ack ack = current_ack();
  for (size_t i = 0; i < packet.probe->nstreams; ++i) {
    const auto half = halves_.find(packet.probe->streams[i]);
    if (half == halves_.end()) continue;
    ack.credits[ack.ncredits++] = {static_cast<uint16_t>(half->second.source_qpn), half->second.granted,
                                   static_cast<uint16_t>(half->second.incarnation)};
  }
  send_ack(ack);
}

const PeerHalf& Connection::half(uint32_t own_qpn) const {
  const auto found = halves_.find(static_cast<uint16_t>(own_qpn));
  Tester::check(found != halves_.end(), "no half of this stream was opened");
  return found->second;
}

void Connection::grant_credit(uint32_t own_qpn, uint32_t limit) {
  PeerHalf& half = halves_.at(static_cast<uint16_t>(own_qpn));
  half.granted = limit;
  wire::Ack ack = current_ack();
  ack.ncredits = 1;
  ack.credits[0] = {static_cast<uint16_t>(half.source_qpn), limit, static_cast<uint16_t>(half.incarnation)};
  send_ack(ack);
}

}  // namespace mroce::comply
