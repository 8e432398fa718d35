// PacketCapture: a pcapng file of the packets on chosen links, with an interface for each direction of a
// link.
//
// Times are those at which the last byte of a packet arrives at the far end of its link, from the beginning
// of the run. Packets that are lost on the link are there with a comment, though they do not arrive. The file
// stops at a maximum size, says so in the comment of its last packet, and what it left out is counted.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "sim/frame.h"
#include "sim/trace.h"

namespace mroce::sim {

class PacketCapture {
 public:
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{1} << 30;

  // Without duplicates in `links`. `snap_bytes`: as the limit of make_frame(). The topology outlives this.
  // The error is a sentence with the path.
  static tl::expected<PacketCapture, std::string> open(const std::string& path, const Topology& topology,
                                                       const std::vector<uint32_t>& links,
                                                       WireProtocol protocol, uint32_t snap_bytes = 0,
                                                       uint64_t max_bytes = kDefaultMaxBytes);

  void add(const TracedPacket& packet, std::span<const std::byte> header);
  bool close();  // false: not everything could be written
  uint64_t written() const { return written_; }
  uint64_t left_out() const { return left_out_; }

 private:
  PacketCapture(const Topology& topology, WireProtocol protocol, uint32_t snap_bytes, uint64_t max_bytes)
      : topology_(&topology), protocol_(protocol), snap_bytes_(snap_bytes), max_bytes_(max_bytes) {}
  void flush();

  const Topology* topology_;
  WireProtocol protocol_;
  uint32_t snap_bytes_;
  uint64_t max_bytes_;
  std::ofstream file_;
  std::unordered_map<uint32_t, uint32_t> interface_of_;  // link
  uint64_t file_bytes_ = 0;                              // written and buffered
  uint64_t written_ = 0;                                 // packets
  uint64_t left_out_ = 0;
  bool full_ = false;
  Frame frame_;  // scratch
  trace::Bytes buffer_;
};

}  // namespace mroce::sim
