#include "soak/world/packet_view.h"

#include <fmt/format.h>

#include <string_view>

#include "core/wire/names.h"

namespace mroce::soak {

using wire::DataOp;
using wire::Type;

const wire::Common* PacketView::header() const {
  if (!looked_at_header_) {
    looked_at_header_ = true;
    wire::Common header;
    if (bytes.size() >= wire::kCommonBytes + wire::kTrailerBytes && wire::decode_common(bytes, header))
      header_ = header;
  }
  return header_ ? &*header_ : nullptr;
}

const wire::Data* PacketView::data() const {
  if (!looked_at_data_) {
    looked_at_data_ = true;
    wire::Data data;
    if (is(Type::kData) && wire::decode_data(body(), *header(), data, payload_)) data_ = data;
  }
  return data_ ? &*data_ : nullptr;
}

const wire::Ack* PacketView::ack() const {
  if (!looked_at_ack_) {
    looked_at_ack_ = true;
    wire::Ack ack;
    if (is(Type::kAck) && wire::decode_ack(body(), ack)) ack_ = ack;
  }
  return ack_ ? &*ack_ : nullptr;
}

std::span<const std::byte> PacketView::payload() const {
  return data() == nullptr ? std::span<const std::byte>{} : payload_;
}

std::optional<wire::StreamControl> PacketView::stream_control() const {
  wire::StreamControl control;
  if (data() == nullptr || !wire::is_stream_control(data()->op) ||
      !wire::decode_stream_control(payload_, control)) {
    return std::nullopt;
  }
  return control;
}

namespace {

std::string_view name_of(Type type) {
  const std::string_view name = wire::short_name(type);
  return name.empty() ? "?" : name;
}

std::string_view name_of(DataOp op) {
  const std::string_view name = wire::short_name(op);
  return name.empty() ? "?" : name;
}

std::string describe_data(const PacketView& packet) {
  const wire::Data& data = *packet.data();
  std::string text =
      fmt::format(" cpsn {} {} stream {} msn {}", data.cpsn, name_of(data.op), data.stream, data.msn);
  if (const auto control = packet.stream_control()) {
    return text + fmt::format(" src {:#x} dst {:#x} inc {} credit {} reason {} code {}", control->src_qpn,
                              control->dst_qpn, control->incarnation, control->credit_limit,
                              static_cast<int>(control->reason), static_cast<int>(control->code));
  }
  if (data.length != 0)
    text += fmt::format(" {}+{} of {}", data.offset, packet.payload().size(), data.length);
  if (data.va != 0) text += fmt::format(" va {:#x} key {:#x}", data.va, data.rkey);
  switch (data.op) {
    case DataOp::kSend:
    case DataOp::kSendImm:
    case DataOp::kSendInv:
    case DataOp::kWriteImm:
      return text + fmt::format(" rqsn {} imm {:#x}", data.rqsn, data.imm);
    case DataOp::kReadReq:
    case DataOp::kReadResp:
    case DataOp::kCompareSwap:
    case DataOp::kFetchAdd:
    case DataOp::kAtomicResp:
      return text + fmt::format(" rdslot {} operand {:#x} status {}", data.rdslot, data.operand,
                                static_cast<int>(data.status));
    default:
      return text;
  }
}

std::string describe_ack(const wire::Ack& ack) {
  std::string text = fmt::format(" cack {} limit {}", ack.cack, ack.cpsn_limit);
  if (ack.host_penalty != 0) text += fmt::format(" penalty {}", ack.host_penalty);
  for (size_t i = 0; i < ack.nblocks; ++i) {
    const wire::PathBlock& block = ack.blocks[i];
    text += fmt::format(" [p{} largest {} bits ..{:016x} rx {} ce {}]", block.path, block.largest,
                        block.vector[0], block.rx_count, block.ce_count);
  }
  for (size_t i = 0; i < ack.nnaks; ++i) {
    text += fmt::format(" NAK cpsn {} code {}", ack.naks[i].cpsn, static_cast<int>(ack.naks[i].code));
  }
  for (size_t i = 0; i < ack.ncredits; ++i) {
    text += fmt::format(" credit stream {} = {}", ack.credits[i].stream, ack.credits[i].limit);
  }
  for (size_t i = 0; i < ack.nreclaims; ++i) text += fmt::format(" reclaim stream {}", ack.reclaims[i]);
  if (ack.has_port_status)
    text += fmt::format(" ports {:#x} ({})", ack.port_status.mask, ack.port_status.sequence);
  return text;
}

}  // namespace

std::string describe(const PacketView& packet) {
  const wire::Common* header = packet.header();
  if (header == nullptr) return fmt::format("unreadable, {} bytes", packet.bytes.size());
  std::string text =
      fmt::format("{} p{} e{} pseq {}", name_of(header->type), header->path, header->epoch, header->pseq);
  if (packet.data() != nullptr) text += describe_data(packet);
  if (packet.ack() != nullptr) text += describe_ack(*packet.ack());
  if ((header->flags & wire::flag::kRetransmit) != 0) text += " RTX";
  if ((header->flags & wire::flag::kAckRequest) != 0) text += " AR";
  if (packet.ecn == Ecn::kCe) text += " CE";
  return text;
}

}  // namespace mroce::soak
