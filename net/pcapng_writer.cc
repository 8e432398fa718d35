#include "net/pcapng_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/trace/pcapng.h"

namespace mroce::net {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr std::string_view kFullComment = "the trace has reached its maximum size; later packets are missing";
constexpr size_t kBlockOverhead = trace::kPacketBlockBytes + kFullComment.size();

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
  trace::append_section(writer.buffer_);
  trace::append_interface(writer.buffer_, {.link_type = trace::kLinkTypeRaw});
  writer.file_bytes_ = writer.buffer_.size();
  return writer;
}

// Makes packet_ = IP header, UDP header, payload.
void PcapngWriter::append_headers(const TracedDatagram& datagram, std::span<const Slice> slices,
                                  uint32_t udp_bytes) {
  const trace::IpHeader ip{.source = address_bytes(datagram.from.ip),
                           .destination = address_bytes(datagram.to.ip),
                           .traffic_class = static_cast<uint8_t>(datagram.ecn),
                           .length = udp_bytes};
  packet_.clear();
  trace::append_ip(packet_, ip);
  const size_t udp = packet_.size();
  trace::append_be16(packet_, datagram.from.port);
  trace::append_be16(packet_, datagram.to.port);
  trace::append_be16(packet_, udp_bytes);
  trace::append_be16(packet_, 0);
  for (const Slice& slice : slices) trace::append_raw(packet_, slice.data, slice.length);
  const uint16_t checksum = trace::transport_checksum(ip, std::span(packet_).subspan(udp));
  trace::put_be16(packet_, udp + 6, checksum == 0 ? uint16_t{0xffff} : checksum);
}

bool PcapngWriter::write(const TracedDatagram& datagram, std::span<const Slice> slices) {
  if (full_ || !file_) {
    ++left_out_;
    return false;
  }
  size_t payload = 0;
  for (const Slice& slice : slices) payload += slice.length;
  append_headers(datagram, slices, static_cast<uint32_t>(payload + 8));
  full_ = file_bytes_ + packet_.size() + kBlockOverhead + datagram.comment.size() > max_bytes_;
  const std::string_view comment = full_ ? kFullComment : datagram.comment;
  const size_t before = buffer_.size();
  trace::append_packet(
      buffer_,
      {.unix_ns = datagram.unix_ns,
       .original_bytes = static_cast<uint32_t>(packet_.size()),
       .direction = datagram.outgoing ? trace::Direction::kOutbound : trace::Direction::kInbound,
       .comment = comment},
      packet_);
  file_bytes_ += buffer_.size() - before;
  if (buffer_.size() >= kBufferBytes) flush();
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
