#include "soak/world/packet_view.h"

#include <fmt/format.h>

#include <string_view>

#include "core/wire/lines.h"

namespace mroce::soak {

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

std::string describe(const PacketView& packet) {
  const wire::Common* header = packet.header();
  if (header == nullptr) return fmt::format("unreadable, {} bytes", packet.bytes.size());
  std::string text = wire::line_of(*header);
  if (packet.data() != nullptr) {
    const auto control = packet.stream_control();
    text += wire::line_of(*packet.data(), control ? &*control : nullptr, packet.payload().size());
  }
  if (packet.ack() != nullptr) text += wire::line_of(*packet.ack());
  text += wire::line_of_flags(*header);
  if (packet.ecn == Ecn::kCe) text += " CE";
  return text;
}

}  // namespace mroce::soak
