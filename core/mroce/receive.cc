// Datagrams in: which connection, which numbers, new or duplicate.
//
// A packet is looked at in this order, and nothing changes before it has passed all that concern it: length,
// version, integrity, connection id, path number, PSEQ window, CPSN window. (Where there may be connections
// of mode 2, the connection comes before integrity, since it says what that is.) The connection's CPSN window
// decides whether a packet is new; only then the stream sees it. A packet that the stream refuses leaves its
// PSEQ bit clear, so that it is offered again, with a NAK in the same ACK.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::Common;
using wire::DataOp;
using wire::Type;
using State = Connection::State;

namespace {
constexpr uint64_t kPseqAhead = 1u << 16;  // a PSEQ further than this above the highest seen is not believed
constexpr uint32_t kBurstAck = 8;          // a burst of so many packets is acknowledged at once
constexpr size_t kMaxNaksWaiting = wire::kMaxAckNaks;
constexpr uint8_t kInitExisting = static_cast<uint8_t>(wire::InitAckFlag::kExists);

// Of what has no connection with keys, or of which an endpoint without its state must be able to make one.
bool always_has_crc(Type type) {
  return type == Type::kInit || type == Type::kRetry || type == Type::kVersion || type == Type::kReset;
}

bool is_sealed_init_ack(wire::In datagram) {
  if (datagram.size() < wire::end_of::init + wire::kTagBytes) return false;
  const uint8_t flags = wire::get<wire::at::init::flags>(datagram.data());
  return (flags & kInitExisting) == 0 && wire::get<wire::at::init::security>(datagram.data()) == kModeGcm;
}
}  // namespace

// ---- RxPath, CpsnWindow
// -----------------------------------------------------------------------------------------

bool RxPath::is_set(uint64_t pseq) const {
  const uint64_t distance = largest - pseq;
  return seen && pseq <= largest && distance < wire::kVectorBits &&
         (vector[distance / 64] >> (distance % 64) & 1) != 0;
}

bool RxPath::note(uint64_t pseq, bool accepted) {
  bool gap = false;
  if (!seen || pseq > largest) {
    const uint64_t shift = seen ? pseq - largest : wire::kVectorBits;
    gap = seen ? shift > 1 : false;
    if (shift >= wire::kVectorBits) {
      vector = {};
    } else {
      const size_t words = shift / 64;
      const size_t bits = shift % 64;
      for (size_t i = 4; i-- > 0;) {
        uint64_t word = i >= words ? vector[i - words] << bits : 0;
        if (bits != 0 && i > words) word |= vector[i - words - 1] >> (64 - bits);
        vector[i] = word;
      }
    }
    largest = pseq;
    seen = true;
    if (accepted) vector[0] |= 1;
    return gap;
  }
  const uint64_t distance = largest - pseq;
  if (distance >= wire::kVectorBits) return false;
  if (accepted) vector[distance / 64] |= 1ULL << (distance % 64);
  return true;
}

bool CpsnWindow::is_set(uint64_t cpsn) const {
  const uint64_t bits = words_.size() * 64;
  if (cpsn - base_ >= bits) return false;
  return (words_[cpsn % bits / 64] >> (cpsn % 64) & 1) != 0;
}

void CpsnWindow::grow(uint64_t needed_bits) {
  uint64_t bits = std::max<uint64_t>(64, words_.size() * 64);
  while (bits < needed_bits) bits *= 2;
  std::vector<uint64_t> words(bits / 64, 0);
  const uint64_t old_bits = words_.size() * 64;
  for (uint64_t cpsn = base_; cpsn != base_ + old_bits; ++cpsn) {
    if ((words_[cpsn % old_bits / 64] >> (cpsn % 64) & 1) != 0)
      words[cpsn % bits / 64] |= 1ULL << (cpsn % 64);
  }
  words_ = std::move(words);
}

void CpsnWindow::set(uint64_t cpsn) {
  MROCE_ASSERT(cpsn >= base_ && cpsn < limit());
  if (cpsn == base_ && count_ == 0) {  // the usual case: in order, nothing waits
    ++base_;
    return;
  }
  if (cpsn - base_ >= words_.size() * 64) grow(cpsn - base_ + 1);
  const uint64_t bits = words_.size() * 64;
  words_[cpsn % bits / 64] |= 1ULL << (cpsn % 64);
  ++count_;
  while (count_ > 0 && (words_[base_ % bits / 64] >> (base_ % 64) & 1) != 0) {
    words_[base_ % bits / 64] &= ~(1ULL << (base_ % 64));
    --count_;
    ++base_;
  }
}

// ---- datagrams
// --------------------------------------------------------------------------------------------------

void Engine::Impl::on_burst(Time now, const RxMeta& meta, wire::In bytes, uint32_t segment_bytes) {
  reap();
  Connection* touched = nullptr;
  if (segment_bytes == 0) segment_bytes = static_cast<uint32_t>(bytes.size());
  counters.rx_bytes += bytes.size();
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(segment_bytes, bytes.size());
    ++counters.rx_datagrams;
    Connection* const before = touched;
    on_datagram(now, meta, bytes.first(size), touched);
    if (before != nullptr && before != touched) acknowledge_burst(now, *before);
    bytes = bytes.subspan(size);
  }
  if (touched != nullptr) acknowledge_burst(now, *touched);
}

[[gnu::always_inline]] inline Connection* Engine::Impl::find_connection(const Common& header,
                                                                        Connection* cached) {
  if (header.path >= wire::kMaxPaths) {
    ++counters.drop_path;
    return nullptr;
  }
  if (cached != nullptr && cached->local_id == header.dcid) return cached;
  const auto it = by_id.find(header.dcid);
  if (it == by_id.end()) {
    ++counters.drop_connection;
    return nullptr;
  }
  return it->second;
}

void Engine::Impl::on_datagram(Time now, const RxMeta& meta, wire::In datagram, Connection*& cached) {
  Common header;
  if (datagram.size() < wire::kCommonBytes + wire::kTrailerBytes || !wire::decode_common(datagram, header)) {
    ++counters.drop_truncated;
    return;
  }
  if (header.version != wire::kVersion) {
    ++counters.drop_version;
    if (header.type == Type::kInit && datagram.size() >= wire::kMinInitBytes &&
        wire::check_trailer(datagram)) {
      send_version(meta, header);
    }
    return;
  }
  if (config.security != SecurityPolicy::kOff && !always_has_crc(header.type)) [[unlikely]] {
    on_maybe_sealed(now, meta, header, datagram, cached);
    return;
  }
  if (!config.virtual_payload && !wire::check_trailer(datagram)) {
    ++counters.drop_crc;
    return;
  }
  const wire::In body = datagram.first(datagram.size() - wire::kTrailerBytes);
  if (header.type == Type::kInit) {
    if (datagram.size() < wire::kMinInitBytes) {
      ++counters.drop_truncated;
      return;
    }
    on_init(now, meta, body);
    return;
  }
  Connection* const c = find_connection(header, cached);
  if (MROCE_MUTANT(kAnswersStrangers) && c == nullptr) send_version(meta, header);
  if (c == nullptr) return;
  cached = c;
  if (header.type == Type::kData) {
    on_data(now, *c, meta, header, body);
  } else {
    on_control_datagram(now, *c, header, body);
  }
}

// A datagram whose trailer is a CRC or a tag: its connection says which. Nothing changes before it is right.
void Engine::Impl::on_maybe_sealed(Time now, const RxMeta& meta, const Common& header, wire::In datagram,
                                   Connection*& cached) {
  Connection* const c = find_connection(header, cached);
  if (c == nullptr) return;
  if (header.type == Type::kInitAck) {
    if (c->security != nullptr) return;  // a repetition
    if (is_sealed_init_ack(datagram)) {
      const size_t bytes = datagram.size() - wire::kTagBytes;
      on_init_ack(now, *c, datagram.first(bytes), datagram.subspan(bytes));
      return;
    }
  }
  wire::In body = datagram.first(datagram.size() - wire::kTrailerBytes);
  if (c->security != nullptr) {
    const auto opened_datagram = open_datagram(now, *c, header, datagram);
    if (!opened_datagram) return;
    body = *opened_datagram;
  } else if (!wire::check_trailer(datagram)) {
    ++counters.drop_crc;
    return;
  }
  cached = c;
  if (header.type == Type::kData) {
    on_data(now, *c, meta, header, body);
  } else {
    on_control_datagram(now, *c, header, body);
  }
}

void Engine::Impl::on_control_datagram(Time now, Connection& c, const Common& header, wire::In body) {
  switch (header.type) {
    case Type::kInitAck:
      on_init_ack(now, c, body, {});
      return;
    case Type::kClose:
      if (c.state != State::kInitSent) on_close(now, c, body);
      return;
    case Type::kCloseAck:
      on_close_ack(now, c);
      return;
    case Type::kReset:
      on_reset(now, c, body);
      return;
    case Type::kRetry:
      on_retry(now, c, body);
      return;
    case Type::kAck: {
      wire::Ack ack;
      if (!c.alive()) return;
      if (!wire::decode_ack(body, ack)) {
        ++counters.drop_malformed;
        return;
      }
      on_ack(now, c, ack);
      return;
    }
    case Type::kProbe: {
      wire::Probe probe;
      if (!c.alive()) return;
      if (!wire::decode_probe(body, probe)) {
        ++counters.drop_malformed;
        return;
      }
      on_probe(now, c, header, probe);
      return;
    }
    case Type::kProbeAck: {
      wire::ProbeAck answer;
      if (!c.alive()) return;
      if (!wire::decode_probe_ack(body, answer)) {
        ++counters.drop_malformed;
        return;
      }
      on_probe_ack(now, c, answer);
      return;
    }
    default:
      ++counters.drop_type;  // VERSION (only one version exists), UD and CM: not in this version
      return;
  }
}

// The PSEQ of a DATA datagram in full, as its nonce needs it: nothing is believed yet, and no path is made
// for it.
uint64_t Engine::Impl::expand_data_pseq(const Connection& c, const Common& header) {
  static constexpr RxPath kUnseen;
  const RxPath& path = header.path < c.rx_paths.size() ? c.rx_paths[header.path] : kUnseen;
  return path.expand(header.pseq, c.first_pseq_peer);
}

void Engine::Impl::on_data(Time now, Connection& c, const RxMeta& meta, const Common& header,
                           wire::In datagram) {
  if (!c.alive()) return;
  wire::Data data;
  wire::In payload;
  if (!wire::decode_data(datagram, header, data, payload)) {
    ++counters.drop_malformed;
    return;
  }
  if (header.path >= c.rx_paths.size()) c.rx_paths.resize(header.path + 1u);
  RxPath& path = c.rx_paths[header.path];
  const uint64_t pseq = path.expand(header.pseq, c.first_pseq_peer);
  if (!MROCE_MUTANT(kAnyPseqTaken) &&
      (pseq > (path.seen ? path.largest : c.first_pseq_peer) + kPseqAhead ||
       (path.seen ? pseq + kPseqAhead < path.largest : pseq < c.first_pseq_peer))) {
    ++counters.drop_pseq;
    return;
  }
  const uint64_t cpsn = wire::expand32(data.cpsn, c.received.base());
  if (cpsn >= c.received.limit() || cpsn + c.peer_window * 2 + (1u << 20) < c.received.base()) {
    ++counters.drop_cpsn;
    return;
  }
  heard_from(now, c);
  ++c.counters.data_packets_received;
  ++path.rx_count;
  path.port = meta.port;
  note_demand(now, c, meta.port, cpsn, wire::decode_backlog(data.backlog),
              static_cast<uint32_t>(datagram.size()), meta.ecn == Ecn::kCe);
  path.news = true;
  ++c.ack_pending;
  ++c.burst_packets;
  if (meta.ecn == Ecn::kCe) {
    ++path.ce_count;
    if (c.ack_pending >= 2) c.ack_urgent = true;
  }
  Verdict verdict = Verdict::accept();
  if (cpsn < c.received.base() || c.received.is_set(cpsn)) {
    ++counters.duplicates;
    ++c.counters.duplicates;
    c.ack_urgent = !MROCE_MUTANT(kDuplicatesSilent);
    if (MROCE_MUTANT(kDuplicatesSilent)) path.news = false;
    const bool again = (MROCE_MUTANT(kDuplicatesPlaced) && data.op == DataOp::kWrite) ||
                       (MROCE_MUTANT(kAtomicAgain) && data.op == DataOp::kFetchAdd);
    if (again) deliver(now, c, header, data, payload);
  } else {
    verdict = deliver(now, c, header, data, payload);
    if (!c.alive()) return;
    if (verdict.kind == Verdict::Kind::kAccept) c.received.set(cpsn);
  }
  const bool first_of_path = !path.seen;
  const bool advanced = first_of_path || pseq > path.largest;
  const bool counts = verdict.kind == Verdict::Kind::kAccept || MROCE_MUTANT(kRefusedIsReceived);
  if (path.note(pseq, counts)) c.ack_urgent = true;
  if (advanced) {
    path.ts_echo = header.ts;
    path.arrived = now;
  }
  if (verdict.kind == Verdict::Kind::kReject && c.naks.size() < kMaxNaksWaiting) {
    c.naks.push_back({data.cpsn, verdict.code, verdict.arg});
    ++counters.naks_sent;
    c.ack_urgent = true;
  }
  if ((header.flags & wire::flag::kAckRequest) != 0) c.ack_requested = true;
  c.last_data = now;
}

Verdict Engine::Impl::deliver(Time now, Connection& c, const Common& header, const wire::Data& data,
                              wire::In payload) {
  if (wire::is_stream_control(data.op)) {
    wire::StreamControl body;
    if (!wire::decode_stream_control(payload, body)) {
      ++counters.drop_malformed;
      return Verdict::drop();
    }
    return on_stream_control(now, c, data, body);
  }
  if (c.first_data == kNever && !payload.empty()) c.first_data = now;
  switch (data.op) {
    case DataOp::kVoid:
      on_void(c, data);
      return Verdict::accept();
    case DataOp::kReadResp:
      return on_read_response(now, c, data, payload);
    case DataOp::kAtomicResp:
      return on_atomic_response(now, c, data);
    default:
      return on_request(now, c, header, data, payload);
  }
}

// After a burst: acknowledge now, soon, or with what comes next.
void Engine::Impl::acknowledge_burst(Time now, Connection& c) {
  if (c.burst_packets != 0 && c.alive()) {
    if (c.ack_urgent || c.burst_packets >= kBurstAck || c.ack_pending >= config.ack_every) {
      schedule_ack(c, now);
    } else if (c.ack_requested) {
      schedule_ack(c, now + config.ack_request_delay);
    } else {
      schedule_ack(c, now + (MROCE_MUTANT(kAckTwoSeconds) ? seconds(2) : config.ack_delay));
    }
  }
  c.burst_packets = 0;
  c.ack_requested = false;
  c.ack_urgent = false;
  if (c.state == State::kDraining) drain_step(now, c);
  want_tx(c);
  reschedule(c);
}

}  // namespace mroce
