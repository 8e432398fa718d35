// PcapngWriter: datagrams as a pcapng file that Wireshark opens (core/trace/pcapng.h), with one interface of
// link type RAW.
//
// Sockets show no IP and UDP headers, so they are made up from the addresses; lengths and checksums are
// right. Buffered; stops at a maximum size, says so in the last packet's comment, and counts what it left
// out. A file that takes no more (a full disk) ends behind the last packet that is whole in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/mroce/burst.h"
#include "net/sockets.h"

namespace mroce::net {

struct TracedDatagram {
  int64_t unix_ns = 0;
  UdpAddress from;
  UdpAddress to;
  Ecn ecn = Ecn::kNotEct;
  bool outgoing = true;
  std::string_view comment;
};

class PcapngWriter {
 public:
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{1} << 30;

  static tl::expected<PcapngWriter, std::string> open(const std::string& path,
                                                      uint64_t max_bytes = kDefaultMaxBytes);
  PcapngWriter(PcapngWriter&&) = default;
  PcapngWriter& operator=(PcapngWriter&&) = delete;
  ~PcapngWriter() { close(); }

  // `slices` are the bytes of one datagram. False once the file is full or could not be written.
  bool write(const TracedDatagram& datagram, std::span<const Slice> slices);
  void close();    // writes what is buffered
  void abandon();  // does not: for a child after fork(), where the buffer is the parent's
  const std::string& path() const { return path_; }
  uint64_t written() const { return written_; }  // datagrams, buffered ones among them
  uint64_t bytes() const { return file_bytes_; }
  uint64_t left_out() const { return left_out_; }
  // Why datagrams are missing: the maximum size is reached, or the file could not be written. Empty if none
  // are.
  std::string trouble() const;
  bool lacks_any() const { return error_ != 0 || left_out_ != 0; }

 private:
  PcapngWriter(FileDescriptor file, std::string path, uint64_t max_bytes)
      : file_(std::move(file)), path_(std::move(path)), max_bytes_(max_bytes) {}
  void append_headers(const TracedDatagram& datagram, std::span<const Slice> slices, uint32_t udp_bytes);
  void flush();
  void fail(int error);

  FileDescriptor file_;
  std::string path_;
  uint64_t max_bytes_;
  uint64_t file_bytes_ = 0;  // written and buffered
  uint64_t written_ = 0;     // datagrams
  uint64_t left_out_ = 0;
  uint64_t buffered_ = 0;  // of the written ones
  bool full_ = false;
  int error_ = 0;
  std::vector<std::byte> packet_;  // scratch: one IP packet
  std::vector<std::byte> buffer_;
};

}  // namespace mroce::net
