#include "comply/lying_target.h"

#include <algorithm>

#include "core/wire/field_table.h"

namespace mroce::comply {

using wire::Type;
namespace at = wire::at;

Started LyingTarget::start(const StartOptions& options) {
  memories_ = Memories{};
  return truth_->start(options);
}

// What the target itself would know.
void LyingTarget::remember(const Told& told, bool outgoing) {
  if (!outgoing) return;
  const bool handshake = told.is(Type::kInit) || told.is(Type::kInitAck);
  if (handshake && told.bytes.size() >= wire::end_of::init) {
    wire::get_bytes<at::init::reset_token>(told.bytes.data(), memories_.reset_token);
    memories_.target_id = wire::get<at::init::scid>(told.bytes.data());
    if (told.is(Type::kInit)) memories_.nonce = wire::get<at::init::nonce>(told.bytes.data());
    memories_.next_cpsn = wire::get<at::init::first_cpsn>(told.bytes.data());
  }
  if (told.is_data()) {
    const uint32_t next = wire::get<at::data::cpsn>(told.bytes.data()) + 1;
    if (static_cast<int32_t>(next - memories_.next_cpsn) > 0) memories_.next_cpsn = next;
  }
}

namespace {
// The trailer of what a lie made of a datagram.
Bytes finished(const Told& told) {
  Bytes bytes = told.bytes;
  bytes.resize(bytes.size() + wire::kTrailerBytes);
  std::byte* const trailer = bytes.data() + told.bytes.size();
  wire::write_trailer(wire::crc_finish(wire::crc_update(wire::kCrcStart, told.bytes)), trailer);
  if (told.trailer_is_wrong || !told.trailer_was_right) trailer[0] ^= std::byte{0x40};
  return bytes;
}
}  // namespace

void LyingTarget::send(std::span<const std::byte> datagram, const Origin& origin) {
  if (lie_.outgoing || datagram.size() < wire::kCommonBytes + wire::kTrailerBytes) {
    truth_->send(datagram, origin);
    return;
  }
  const auto body = datagram.first(datagram.size() - wire::kTrailerBytes);
  Told told{{body.begin(), body.end()},    origin.ecn,      false,    false,
            wire::check_trailer(datagram), origin.stranger, memories_};
  lie_.tell(told);
  if (told.swallowed) return;
  Origin seen = origin;
  seen.ecn = told.ecn;
  truth_->send(finished(told), seen);
}

std::optional<Arrived> LyingTarget::receive(Time until) {
  for (;;) {
    auto arrived = truth_->receive(until);
    if (!arrived || arrived->bytes.size() < wire::kCommonBytes + wire::kTrailerBytes) return arrived;
    const std::span<const std::byte> body(arrived->bytes.data(), arrived->bytes.size() - wire::kTrailerBytes);
    Told told{{body.begin(), body.end()}, arrived->ecn, false, false, true, false, memories_};
    remember(told, true);
    if (!lie_.outgoing) return arrived;
    lie_.tell(told);
    if (told.swallowed) continue;
    arrived->bytes = finished(told);
    arrived->ecn = told.ecn;
    return arrived;
  }
}

}  // namespace mroce::comply
