#include "comply/packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/wire/lines.h"

namespace mroce::comply {

using wire::Type;

const wire::PathBlock* Packet::block(uint8_t path) const {
  if (!ack) return nullptr;
  for (size_t i = 0; i < ack->nblocks; ++i) {
    if (ack->blocks[i].path == path) return &ack->blocks[i];
  }
  return nullptr;
}

const wire::Nak* Packet::nak(uint32_t cpsn) const {
  if (!ack) return nullptr;
  for (size_t i = 0; i < ack->nnaks; ++i) {
    if (ack->naks[i].cpsn == cpsn) return &ack->naks[i];
  }
  return nullptr;
}

const wire::Credit* Packet::credit(uint16_t stream) const {
  if (!ack) return nullptr;
  for (size_t i = 0; i < ack->ncredits; ++i) {
    if (ack->credits[i].stream == stream) return &ack->credits[i];
  }
  return nullptr;
}

namespace {

template <class Body>
void decode_as(std::optional<Body>& out, bool (*decoder)(wire::In, Body&), wire::In body) {
  Body value;
  if (decoder(body, value)) out = value;
}

void decode_data_into(Packet& packet, wire::In body) {
  wire::Data data;
  wire::In payload;
  if (!wire::decode_data(body, *packet.header, data, payload)) return;
  packet.data = data;
  packet.payload.assign(payload.begin(), payload.end());
  wire::StreamControl control;
  if (wire::is_stream_control(data.op) && wire::decode_stream_control(payload, control))
    packet.control = control;
}

void decode_body(Packet& packet, wire::In body) {
  switch (packet.header->type) {
    case Type::kInit:
    case Type::kInitAck:
      return decode_as(packet.init, wire::decode_init, body);
    case Type::kRetry:
      return decode_as(packet.retry, wire::decode_retry, body);
    case Type::kVersion:
      return decode_as(packet.version, wire::decode_version, body);
    case Type::kData:
      return decode_data_into(packet, body);
    case Type::kAck:
      return decode_as(packet.ack, wire::decode_ack, body);
    case Type::kProbe:
      return decode_as(packet.probe, wire::decode_probe, body);
    case Type::kProbeAck:
      return decode_as(packet.probe_ack, wire::decode_probe_ack, body);
    case Type::kClose:
    case Type::kCloseAck:
      return decode_as(packet.close, wire::decode_close, body);
    case Type::kReset:
      return decode_as(packet.reset, wire::decode_reset, body);
    default:
      return;
  }
}

}  // namespace

Packet decode(Bytes bytes) {
  Packet packet;
  packet.bytes = std::move(bytes);
  const wire::In all(packet.bytes);
  wire::Common header;
  if (all.size() < wire::kCommonBytes + wire::kTrailerBytes || !wire::decode_common(all, header))
    return packet;
  packet.header = header;
  packet.good_trailer = wire::check_trailer(all);
  if (header.version == wire::kVersion || header.type == Type::kVersion)
    decode_body(packet, all.first(all.size() - wire::kTrailerBytes));
  return packet;
}

void decode_opened(Packet& packet, const std::optional<Bytes>& plain) {
  packet.data.reset();
  packet.control.reset();
  packet.ack.reset();
  packet.probe.reset();
  packet.probe_ack.reset();
  packet.close.reset();
  packet.init.reset();
  packet.payload.clear();
  packet.sealed = packet.good_trailer = plain.has_value();
  if (plain) decode_body(packet, *plain);
}

// ---- one line

std::string describe(const Packet& packet) {
  if (!packet.header) return fmt::format("{} bytes that are no datagram of mroce", packet.bytes.size());
  const wire::Common& header = *packet.header;
  std::string text = wire::line_of(header);
  if (header.version != wire::kVersion) text += fmt::format(" version {}", header.version);
  if (packet.data)
    text += wire::line_of(*packet.data, packet.control ? &*packet.control : nullptr, packet.payload.size());
  if (packet.ack) text += wire::line_of(*packet.ack);
  if (packet.init) text += wire::line_of(*packet.init);
  if (packet.probe)
    text += fmt::format(" token {:x} kind {} streams {}", packet.probe->token, packet.probe->kind,
                        packet.probe->nstreams);
  if (packet.probe_ack) text += fmt::format(" token {:x}", packet.probe_ack->token);
  if (packet.close) text += fmt::format(" cack {} reason {}", packet.close->cack, packet.close->reason);
  if (packet.retry) text += fmt::format(" cookie of {} B", packet.retry->cookie.length);
  text += wire::line_of_flags(header);
  if (packet.ecn == Ecn::kCe) text += " CE";
  text += fmt::format(" ({} B)", packet.bytes.size());
  if (packet.sealed) text += packet.has(wire::flag::kKeyPhase) ? " sealed EPH" : " sealed";
  if (!packet.good_trailer) text += " bad trailer";
  return text;
}

bool says_received(const wire::PathBlock& block, uint32_t pseq) {
  const uint32_t below = block.largest - pseq;
  return below < wire::kVectorBits && (block.vector[below / 64] >> (below % 64) & 1) != 0;
}

Match type(wire::Type type) {
  return [type](const Packet& packet) { return packet.is(type); };
}
Match op(wire::DataOp op) {
  return [op](const Packet& packet) { return packet.is(op); };
}
Match operator&&(Match a, Match b) {
  return [a = std::move(a), b = std::move(b)](const Packet& packet) { return a(packet) && b(packet); };
}
Match on_path(uint8_t path) {
  return [path](const Packet& packet) { return packet.header && packet.header->path == path; };
}

void append_trailer(Bytes& datagram) {
  datagram.resize(datagram.size() + wire::kTrailerBytes);
  fix_trailer(datagram);
}

void fix_trailer(Bytes& datagram) {
  if (datagram.size() < wire::kTrailerBytes) return;
  const size_t body = datagram.size() - wire::kTrailerBytes;
  const uint32_t crc = wire::crc_finish(wire::crc_update(wire::kCrcStart, wire::In(datagram).first(body)));
  wire::write_trailer(crc, datagram.data() + body);
}

}  // namespace mroce::comply
