#include "sim/packet_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/trace/pcapng.h"

namespace mroce::sim {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr std::string_view kFullComment =
    "the capture has reached its maximum size; later packets are missing";
constexpr std::string_view kLostComment = "lost on this link";
constexpr uint64_t kMostOfAPacket =
    trace::kPacketBlockBytes + Frame::kMaxHeaderBytes + kFullComment.size();  // without payload

}  // namespace

tl::expected<PacketCapture, std::string> PacketCapture::open(const std::string& path,
                                                             const Topology& topology,
                                                             const std::vector<uint32_t>& links,
                                                             WireProtocol protocol, uint32_t snap_bytes,
                                                             uint64_t max_bytes) {
  PacketCapture capture(topology, protocol, snap_bytes, max_bytes);
  capture.file_.open(path, std::ios::binary | std::ios::trunc);
  if (!capture.file_) return tl::unexpected(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  trace::append_section(capture.buffer_);
  for (const uint32_t link : links) {
    const auto number = static_cast<uint32_t>(capture.interface_of_.size());
    capture.interface_of_.emplace(link, number);
    const std::string name = topology.link_name(link);
    trace::append_interface(capture.buffer_, {.link_type = trace::kLinkTypeEthernet,
                                              .snap_bytes = std::max(Frame::kMaxHeaderBytes, snap_bytes),
                                              .name = name,
                                              .speed_bps = topology.links[link].rate_bps});
  }
  capture.file_bytes_ = capture.buffer_.size();
  return capture;
}

void PacketCapture::add(const TracedPacket& packet, std::span<const std::byte> header) {
  if (full_) {
    ++left_out_;
    return;
  }
  full_ = file_bytes_ + 2 * (kMostOfAPacket + snap_bytes_) > max_bytes_;
  make_frame(protocol_, *topology_, packet.link, packet.packet, header, snap_bytes_, frame_);
  const std::string_view comment = full_ ? kFullComment : packet.lost ? kLostComment : std::string_view();
  const size_t before = buffer_.size();
  trace::append_packet(buffer_,
                       {.interface = interface_of_.at(packet.link),
                        .unix_ns = packet.at / kPicosInNano,
                        .original_bytes = frame_.original_bytes,
                        .comment = comment},
                       frame_.bytes);
  file_bytes_ += buffer_.size() - before;
  ++written_;
  if (buffer_.size() >= kBufferBytes) flush();
}

void PacketCapture::flush() {
  file_.write(reinterpret_cast<const char*>(buffer_.data()), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

bool PacketCapture::close() {
  flush();
  file_.close();
  return static_cast<bool>(file_);
}

}  // namespace mroce::sim
