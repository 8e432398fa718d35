// Stream control payloads and the datagrams that are neither DATA nor ACK, except INIT (init_codec.cc).
#include <algorithm>

#include "core/base/assert.h"
#include "core/wire/codec.h"
#include "core/wire/tlv.h"

namespace mroce::wire {

bool decode_stream_control(In payload, StreamControl& out) {
  if (payload.size() != kStreamControlBytes) return false;
  const std::byte* p = payload.data();
  out.src_qpn = get<at::stream_control::src_qpn>(p);
  out.dst_qpn = get<at::stream_control::dst_qpn>(p);
  out.sq_psn = get<at::stream_control::sq_psn>(p);
  out.incarnation = get<at::stream_control::incarnation>(p);
  out.credit_limit = get<at::stream_control::credit_limit>(p);
  out.rd_atomic = get<at::stream_control::rd_atomic>(p);
  out.min_rnr_timer = get<at::stream_control::min_rnr_timer>(p);
  out.reason = static_cast<StopReason>(get<at::stream_control::reason>(p));
  out.code = static_cast<NakCode>(get<at::stream_control::code>(p));
  return ((out.src_qpn | out.dst_qpn | out.sq_psn) >> 24) == 0 && out.min_rnr_timer <= 31 &&
         out.reason <= StopReason::kFailed && out.code <= NakCode::kUnknownStream;
}

void encode_stream_control(const StreamControl& control, std::byte* out) {
  put<at::stream_control::src_qpn>(out, control.src_qpn);
  put<at::stream_control::dst_qpn>(out, control.dst_qpn);
  put<at::stream_control::sq_psn>(out, control.sq_psn);
  put<at::stream_control::incarnation>(out, control.incarnation);
  put<at::stream_control::credit_limit>(out, control.credit_limit);
  put<at::stream_control::rd_atomic>(out, control.rd_atomic);
  put<at::stream_control::min_rnr_timer>(out, control.min_rnr_timer);
  put<at::stream_control::reason>(out, static_cast<uint8_t>(control.reason));
  put<at::stream_control::code>(out, static_cast<uint8_t>(control.code));
  put_zero<at::stream_control::zero>(out);
}

bool decode_probe(In datagram, Probe& out) {
  if (datagram.size() < end_of::probe) return false;
  const std::byte* p = datagram.data();
  out.token = get<at::probe::token>(p);
  out.nstreams = get<at::probe::nstreams>(p);
  out.kind = get<at::probe::kind>(p);
  if (out.nstreams > kMaxProbeStreams || datagram.size() < end_of::probe + out.nstreams * sizeof(uint16_t)) {
    return false;
  }
  for (size_t i = 0; i < out.nstreams; ++i) out.streams[i] = load_be<uint16_t>(p + end_of::probe + 2 * i);
  return true;
}

size_t encode_probe(const Common& header, const Probe& probe, size_t pad_to, Out out) {
  MROCE_ASSERT(probe.nstreams <= probe.streams.size());
  const size_t filled = end_of::probe + probe.nstreams * sizeof(uint16_t);
  const size_t bytes = std::max(filled, pad_to);
  if (out.size() < bytes) return 0;
  std::byte* const p = out.data();
  encode_common(header, p);
  put<at::probe::token>(p, probe.token);
  put<at::probe::nstreams>(p, probe.nstreams);
  put<at::probe::kind>(p, probe.kind);
  put_zero<at::probe::zero>(p);
  for (size_t i = 0; i < probe.nstreams; ++i) store_be(p + end_of::probe + 2 * i, probe.streams[i]);
  std::fill(p + filled, p + bytes, std::byte{0});
  return bytes;
}

bool decode_probe_ack(In datagram, ProbeAck& out) {
  if (!is_good_tail(datagram, end_of::probe_ack)) return false;
  out.token = get<at::probe_ack::token>(datagram.data());
  return true;
}

size_t encode_probe_ack(const Common& header, const ProbeAck& ack, Out out) {
  if (out.size() < end_of::probe_ack) return 0;
  encode_common(header, out.data());
  put<at::probe_ack::token>(out.data(), ack.token);
  return end_of::probe_ack;
}

bool decode_close(In datagram, Close& out) {
  if (!is_good_tail(datagram, end_of::close)) return false;
  out.cack = get<at::close::cack>(datagram.data());
  out.reason = get<at::close::reason>(datagram.data());
  return true;
}

size_t encode_close(const Common& header, const Close& close, Out out) {
  if (out.size() < end_of::close) return 0;
  encode_common(header, out.data());
  put<at::close::cack>(out.data(), close.cack);
  put<at::close::reason>(out.data(), close.reason);
  return end_of::close;
}

bool decode_reset(In datagram, Reset& out) {
  if (!is_good_tail(datagram, end_of::reset)) return false;
  get_bytes<at::reset::token>(datagram.data(), out.token);
  return true;
}

size_t encode_reset(const Common& header, const Reset& reset, Out out) {
  if (out.size() < end_of::reset) return 0;
  encode_common(header, out.data());
  put_bytes<at::reset::token>(out.data(), reset.token);
  return end_of::reset;
}

bool decode_retry(In datagram, Retry& out) {
  if (datagram.size() < end_of::retry) return false;
  out.nonce = get<at::retry::nonce>(datagram.data());
  out.cookie = {};
  out.cookie.length = get<at::retry::length>(datagram.data());
  if (out.cookie.length == 0 || out.cookie.length > kMaxCookieBytes) return false;
  if (!is_good_tail(datagram, end_of::retry + out.cookie.length)) return false;
  std::memcpy(out.cookie.bytes.data(), datagram.data() + end_of::retry, out.cookie.length);
  return true;
}

size_t encode_retry(const Common& header, const Retry& retry, Out out) {
  MROCE_ASSERT(retry.cookie.length >= 1 && retry.cookie.length <= kMaxCookieBytes);
  const size_t bytes = end_of::retry + retry.cookie.length;
  if (out.size() < bytes) return 0;
  encode_common(header, out.data());
  put<at::retry::nonce>(out.data(), retry.nonce);
  put<at::retry::length>(out.data(), retry.cookie.length);
  put_zero<at::retry::zero>(out.data());
  std::memcpy(out.data() + end_of::retry, retry.cookie.bytes.data(), retry.cookie.length);
  return bytes;
}

bool decode_version(In datagram, VersionList& out) {
  if (datagram.size() < end_of::version) return false;
  out.count = get<at::version::count>(datagram.data());
  if (out.count == 0 || out.count > out.versions.size()) return false;
  if (!is_good_tail(datagram, end_of::version + out.count)) return false;
  std::memcpy(out.versions.data(), datagram.data() + end_of::version, out.count);
  return true;
}

size_t encode_version(const Common& header, const VersionList& list, Out out) {
  MROCE_ASSERT(list.count >= 1 && list.count <= list.versions.size());
  const size_t bytes = end_of::version + list.count;
  if (out.size() < bytes) return 0;
  encode_common(header, out.data());
  put<at::version::count>(out.data(), list.count);
  put_zero<at::version::zero>(out.data());
  std::memcpy(out.data() + end_of::version, list.versions.data(), list.count);
  return bytes;
}

}  // namespace mroce::wire
