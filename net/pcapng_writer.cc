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
  PcapngWriter writer(std::move(file), path, max_bytes);
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
  ++written_;
  ++buffered_;
  if (buffer_.size() >= kBufferBytes) flush();
  return true;
}

void PcapngWriter::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(file_.get(), buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fail(count < 0 ? errno : EIO);
      break;
    }
    done += static_cast<size_t>(count);
  }
  buffer_.clear();
  buffered_ = 0;
}

// A full disk must not stop the program that is traced. What is in the file without its end would be reported
// as damage by whoever reads it: it is cut off, if the file is one that can be cut.
void PcapngWriter::fail(int error) {
  full_ = true;
  error_ = error;
  written_ -= buffered_;
  left_out_ += buffered_;
  file_bytes_ -= buffer_.size();
  [[maybe_unused]] const int cut = ::ftruncate(file_.get(), static_cast<off_t>(file_bytes_));
}

std::string PcapngWriter::trouble() const {
  if (error_ != 0) return fmt::format("cannot write it: {}", std::strerror(error_));
  return left_out_ == 0 ? "" : "it has reached its maximum size";
}

void PcapngWriter::close() {
  if (!file_) return;
  flush();
  // Where files are on another machine, what did not fit may be told only now.
  if (::close(file_.release()) != 0 && errno != EINTR && error_ == 0) error_ = errno;
}

void PcapngWriter::abandon() {
  buffer_.clear();
  file_.reset();
}

}  // namespace mroce::net
