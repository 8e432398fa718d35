#include "core/wire/lines.h"

#include <fmt/format.h>

#include "core/wire/names.h"

namespace mroce::wire {

namespace {

template <typename T>
std::string_view name_of(T value) {
  const std::string_view name = short_name(value);
  return name.empty() ? "?" : name;
}

std::string line_of_extension(const Data& data) {
  std::string text;
  if (data.va != 0) text += fmt::format(" va {:#x} key {:#x}", data.va, data.rkey);
  switch (data.op) {
    case DataOp::kSend:
    case DataOp::kSendImm:
    case DataOp::kSendInv:
    case DataOp::kWriteImm:
      return text + fmt::format(" rqsn {} imm {:#x}", data.rqsn, data.imm);
    case DataOp::kReadReq:
    case DataOp::kReadResp:
      return text + fmt::format(" rdslot {} status {}", data.rdslot, int(data.status));
    case DataOp::kCompareSwap:
    case DataOp::kFetchAdd:
    case DataOp::kAtomicResp:
      return text + fmt::format(" rdslot {} operand {:#x} compare {:#x} status {}", data.rdslot, data.operand,
                                data.compare, int(data.status));
    default:
      return text;
  }
}

}  // namespace

std::string line_of(const Common& header) {
  return fmt::format("{} p{} e{} dcid {:#x} pseq {}", name_of(header.type), header.path, header.epoch,
                     header.dcid, header.pseq);
}

std::string line_of(const Data& data, const StreamControl* control, size_t payload) {
  std::string text =
      fmt::format(" cpsn {} {} stream {} msn {}", data.cpsn, name_of(data.op), data.stream, data.msn);
  if (control != nullptr) {
    return text + fmt::format(" src {:#x} dst {:#x} inc {} credit {} reason {} code {}", control->src_qpn,
                              control->dst_qpn, control->incarnation, control->credit_limit,
                              int(control->reason), int(control->code));
  }
  if (data.op != DataOp::kVoid) text += fmt::format(" {}+{} of {}", data.offset, payload, data.length);
  return text + line_of_extension(data);
}

std::string line_of(const Ack& ack) {
  std::string text = fmt::format(" cack {} limit {}", ack.cack, ack.cpsn_limit);
  if (ack.host_penalty != 0) text += fmt::format(" penalty {}", ack.host_penalty);
  for (size_t i = 0; i < ack.nblocks; ++i) {
    const PathBlock& block = ack.blocks[i];
    text += fmt::format(" [p{} largest {} bits ..{:x} rx {} ce {}]", block.path, block.largest,
                        block.vector[0], block.rx_count, block.ce_count);
  }
  for (size_t i = 0; i < ack.nnaks; ++i) {
    const auto& nak = ack.naks[i];
    text += fmt::format(" NAK cpsn {} code {} arg {}", nak.cpsn, int(nak.code), nak.arg);
  }
  for (size_t i = 0; i < ack.ncredits; ++i)
    text += fmt::format(" credit stream {} = {}", ack.credits[i].stream, ack.credits[i].limit);
  for (size_t i = 0; i < ack.nreclaims; ++i) text += fmt::format(" reclaim stream {}", ack.reclaims[i]);
  if (ack.has_port_status)
    text += fmt::format(" ports {:#x} ({})", ack.port_status.mask, ack.port_status.sequence);
  return text;
}

std::string line_of(const Init& init) {
  return fmt::format(" scid {:#x} mtu {} paths {} ports {} window {} first cpsn {} pseq {} flags {}",
                     init.scid, init.payload_mtu, init.max_paths, init.nports, init.cpsn_window,
                     init.first_cpsn, init.first_pseq, init.flags);
}

std::string line_of_flags(const Common& header) {
  std::string text;
  if ((header.flags & flag::kRetransmit) != 0) text += " RTX";
  if ((header.flags & flag::kAckRequest) != 0) text += " AR";
  return text;
}

}  // namespace mroce::wire
