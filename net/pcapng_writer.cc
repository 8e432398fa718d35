#include "net/pcapng_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mroce::net {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr uint32_t kInterfaceBlock = 1;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint16_t kLinkTypeRaw = 101;
constexpr uint16_t kOptionEnd = 0;
constexpr uint16_t kOptionComment = 1;
constexpr uint16_t kOptionPacketFlags = 2;  // epb_flags; bits 0-1: 1 inbound, 2 outbound
constexpr uint16_t kOptionResolution = 9;   // if_tsresol
constexpr uint8_t kUdp = 17;
constexpr uint8_t kHopLimit = 64;
constexpr std::string_view kFullComment = "the trace has reached its maximum size; later packets are missing";

using Bytes = std::vector<std::byte>;

void append_raw(Bytes& out, const void* data, size_t length) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + length);
}
template <class T>
void append_host(Bytes& out, T value) {  // pcapng is in the writer's byte order
  append_raw(out, &value, sizeof value);
}
void append_be16(Bytes& out, uint32_t value) {
  out.push_back(static_cast<std::byte>(value >> 8));
  out.push_back(static_cast<std::byte>(value));
}
void pad_to_4(Bytes& out) {
  out.resize((out.size() + 3) / 4 * 4);
}

void append_option(Bytes& out, uint16_t code, const void* data, size_t length) {
  append_host(out, code);
  append_host(out, static_cast<uint16_t>(length));
  append_raw(out, data, length);
  pad_to_4(out);
}

// The Internet checksum (RFC 1071) as a running sum over 16-bit words.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) {
      sum_ += odd_ ? std::to_integer<uint32_t>(b) : std::to_integer<uint32_t>(b) << 8;
      odd_ = !odd_;
    }
  }
  void add_word(uint32_t word) { sum_ += word; }
  uint16_t value() const {
    uint64_t sum = sum_;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
  }

 private:
  uint64_t sum_ = 0;
  bool odd_ = false;
};

void put_be16(Bytes& out, size_t at, uint16_t value) {
  out[at] = static_cast<std::byte>(value >> 8);
  out[at + 1] = static_cast<std::byte>(value);
}

std::span<const std::byte> address_bytes(const Gid& gid) {
  const auto all = std::as_bytes(std::span(gid.raw));
  return gid.is_v4_mapped() ? all.subspan(12) : all;
}

}  // namespace

tl::expected<PcapngWriter, std::string> PcapngWriter::open(const std::string& path, uint64_t max_bytes) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) {
    return tl::unexpected(
        fmt::format("cannot write the trace {}: {}; name a file in a folder that you may write to", path,
                    std::strerror(errno)));
  }
  PcapngWriter writer(std::move(file), max_bytes);
  Bytes body;
  append_host(body, uint32_t{0x1a2b3c4d});  // byte-order magic
  append_host(body, uint16_t{1});           // version 1.0
  append_host(body, uint16_t{0});
  append_host(body, int64_t{-1});  // length of the section: not given
  writer.append_block(kSectionHeaderBlock, body);
  body.clear();
  append_host(body, kLinkTypeRaw);
  append_host(body, uint16_t{0});
  append_host(body, uint32_t{0});  // no snapshot limit
  const uint8_t nanoseconds = 9;   // 10^-9
  append_option(body, kOptionResolution, &nanoseconds, 1);
  append_host(body, kOptionEnd);
  append_host(body, uint16_t{0});
  writer.append_block(kInterfaceBlock, body);
  return writer;
}

void PcapngWriter::append_block(uint32_t type, std::span<const std::byte> body) {
  const auto total = static_cast<uint32_t>(body.size() + 12);
  append_host(buffer_, type);
  append_host(buffer_, total);
  append_raw(buffer_, body.data(), body.size());
  append_host(buffer_, total);
  file_bytes_ += total;
  if (buffer_.size() >= kBufferBytes) flush();
}

// Makes packet_ = IP header, UDP header, payload.
void PcapngWriter::append_headers(const TracedDatagram& datagram, std::span<const Slice> slices,
                                  uint32_t udp_bytes) {
  const bool v4 = datagram.from.ip.is_v4_mapped();
  const auto ecn = static_cast<uint8_t>(datagram.ecn);
  const auto source = address_bytes(datagram.from.ip);
  const auto destination = address_bytes(datagram.to.ip);
  packet_.clear();
  if (v4) {
    packet_.push_back(std::byte{0x45});
    packet_.push_back(static_cast<std::byte>(ecn));
    append_be16(packet_, 20 + udp_bytes);
    append_be16(packet_, 0);       // identification
    append_be16(packet_, 0x4000);  // DF
    packet_.push_back(std::byte{kHopLimit});
    packet_.push_back(std::byte{kUdp});
    append_be16(packet_, 0);
  } else {
    packet_.push_back(static_cast<std::byte>(0x60 | ecn >> 4));
    packet_.push_back(static_cast<std::byte>(ecn << 4));
    append_be16(packet_, 0);  // flow label
    append_be16(packet_, udp_bytes);
    packet_.push_back(std::byte{kUdp});
    packet_.push_back(std::byte{kHopLimit});
  }
  append_raw(packet_, source.data(), source.size());
  append_raw(packet_, destination.data(), destination.size());
  if (v4) {
    Checksum checksum;
    checksum.add(packet_);
    put_be16(packet_, 10, checksum.value());
  }
  const size_t udp = packet_.size();
  append_be16(packet_, datagram.from.port);
  append_be16(packet_, datagram.to.port);
  append_be16(packet_, udp_bytes);
  append_be16(packet_, 0);
  for (const Slice& slice : slices) append_raw(packet_, slice.data, slice.length);
  Checksum checksum;
  checksum.add(source);
  checksum.add(destination);
  checksum.add_word(kUdp);
  checksum.add_word(udp_bytes);
  checksum.add(std::span(packet_).subspan(udp));
  put_be16(packet_, udp + 6, checksum.value() == 0 ? uint16_t{0xffff} : checksum.value());
}

bool PcapngWriter::write(const TracedDatagram& datagram, std::span<const Slice> slices) {
  if (full_ || !file_) {
    ++left_out_;
    return false;
  }
  size_t payload = 0;
  for (const Slice& slice : slices) payload += slice.length;
  append_headers(datagram, slices, static_cast<uint32_t>(payload + 8));
  constexpr size_t kBlockOverhead = 256;
  full_ = file_bytes_ + packet_.size() + kBlockOverhead + datagram.comment.size() > max_bytes_;
  const std::string_view comment = full_ ? kFullComment : datagram.comment;

  block_.clear();
  append_host(block_, uint32_t{0});  // interface
  append_host(block_, static_cast<uint32_t>(static_cast<uint64_t>(datagram.unix_ns) >> 32));
  append_host(block_, static_cast<uint32_t>(datagram.unix_ns));
  append_host(block_, static_cast<uint32_t>(packet_.size()));
  append_host(block_, static_cast<uint32_t>(packet_.size()));
  append_raw(block_, packet_.data(), packet_.size());
  pad_to_4(block_);
  const uint32_t flags = datagram.outgoing ? 2 : 1;
  append_option(block_, kOptionPacketFlags, &flags, sizeof flags);
  if (!comment.empty()) append_option(block_, kOptionComment, comment.data(), comment.size());
  append_host(block_, kOptionEnd);
  append_host(block_, uint16_t{0});
  append_block(kEnhancedPacketBlock, block_);
  ++written_;
  return true;
}

void PcapngWriter::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(file_.get(), buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {  // a full disk must not stop the program that is traced
      full_ = true;
      break;
    }
    done += static_cast<size_t>(count);
  }
  buffer_.clear();
}

void PcapngWriter::close() {
  if (!file_) return;
  flush();
  file_.reset();
}

void PcapngWriter::abandon() {
  buffer_.clear();
  file_.reset();
}

}  // namespace mroce::net
