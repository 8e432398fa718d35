// Datagrams without their trailer, through every decoder of core/wire. What a decoder accepts can be encoded,
// and comes back the same from the bytes that result: so nothing that it lets through is beyond what a packet
// can say.
#include <vector>

#include "core/wire/codec.h"
#include "fuzz/input.h"

using namespace mroce;

namespace {

constexpr size_t kRoom = 16384;

// In memory of exactly its size, so that a sanitizer sees a read behind the end.
struct Exact {
  explicit Exact(wire::In bytes) : bytes(bytes.begin(), bytes.end()) {}
  wire::In view() const { return bytes; }
  std::vector<std::byte> bytes;
};

template <class Packet, class Decode, class Encode>
void check(wire::In datagram, Decode decode, Encode encode) {
  Packet packet;
  if (!decode(datagram, packet)) return;
  std::vector<std::byte> out(kRoom);
  const size_t size = encode(packet, wire::Out{out});
  fuzz::require(size != 0, "what was decoded cannot be encoded");
  Packet again;
  fuzz::require(decode(Exact({out.data(), size}).view(), again), "what was encoded cannot be decoded");
  fuzz::require(packet == again, "what was encoded is another packet");
}

void check_data(wire::In datagram, const wire::Common& header) {
  wire::Data data;
  wire::In payload;
  if (!wire::decode_data(datagram, header, data, payload)) return;
  fuzz::require(payload.empty() || payload.data() + payload.size() == datagram.data() + datagram.size(),
                "the payload does not end with the datagram");
  if (wire::is_stream_control(data.op)) {
    wire::StreamControl control;
    if (wire::decode_stream_control(payload, control)) {
      std::vector<std::byte> out(wire::kStreamControlBytes);
      wire::encode_stream_control(control, out.data());
      wire::StreamControl again;
      fuzz::require(wire::decode_stream_control(out, again) && again == control, "another stream control");
    }
  }
  std::vector<std::byte> out(wire::kMaxHeaderBytes + payload.size());
  wire::Common plain = header;
  plain.flags &= static_cast<uint8_t>(~wire::flag::kExtension);  // its TLVs were skipped
  const size_t size = wire::encode_data(plain, data, out.data());
  std::copy(payload.begin(), payload.end(), out.begin() + static_cast<std::ptrdiff_t>(size));
  out.resize(size + payload.size());
  wire::Data again;
  wire::In same;
  fuzz::require(wire::decode_data(out, plain, again, same) && again == data, "another DATA");
  fuzz::require(std::ranges::equal(same, payload), "another payload");
}

void check_body(wire::In datagram, const wire::Common& header) {
  const auto with = [&](auto encode) {
    return [&header, encode](const auto& packet, wire::Out out) { return encode(header, packet, out); };
  };
  switch (header.type) {
    case wire::Type::kAck:
      return check<wire::Ack>(datagram, wire::decode_ack, with(wire::encode_ack));
    case wire::Type::kProbe:
      return check<wire::Probe>(datagram, wire::decode_probe, [&](const wire::Probe& probe, wire::Out out) {
        return wire::encode_probe(header, probe, 0, out);
      });
    case wire::Type::kProbeAck:
      return check<wire::ProbeAck>(datagram, wire::decode_probe_ack, with(wire::encode_probe_ack));
    case wire::Type::kClose:
    case wire::Type::kCloseAck:
      return check<wire::Close>(datagram, wire::decode_close, with(wire::encode_close));
    case wire::Type::kReset:
      return check<wire::Reset>(datagram, wire::decode_reset, with(wire::encode_reset));
    case wire::Type::kVersion:
      return check<wire::VersionList>(datagram, wire::decode_version, with(wire::encode_version));
    case wire::Type::kInit:
    case wire::Type::kInitAck: {
      wire::Init foreign;  // of which only the fixed part is read
      if (wire::decode_init(datagram, foreign) && foreign.magic != wire::kMagic) return;
      return check<wire::Init>(datagram, wire::decode_init, [&](const wire::Init& init, wire::Out out) {
        return wire::encode_init(header, init, 0, out);
      });
    }
    case wire::Type::kRetry:
      return check<wire::Retry>(datagram, wire::decode_retry, with(wire::encode_retry));
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Exact input(std::as_bytes(std::span(data, size)));
  const wire::In datagram = input.view();
  wire::check_trailer(datagram);
  wire::Common header;
  if (!wire::decode_common(datagram, header)) {
    fuzz::require(size < wire::kCommonBytes, "a header that is there was refused");
    return 0;
  }
  if (header.type == wire::Type::kData) {
    check_data(datagram, header);
  } else {
    check_body(datagram, header);
  }
  fuzz::require(wire::encode_rate(wire::decode_rate(static_cast<uint16_t>(header.pseq))) <= 0xffff, "a rate");
  return 0;
}
