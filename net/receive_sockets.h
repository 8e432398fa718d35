// ReceiveSockets: one UDP socket for each local address, all at the port of one slot.
//
// The port tells peers where a process listens (base port + slot, the slot being the upper byte of its QPNs),
// so no two processes of a host may share one: neither SO_REUSEADDR nor SO_REUSEPORT is set, and the kernel
// decides who is first. UDP_GRO hands over whole super-packets; SO_RXQ_OVFL tells how many datagrams a full
// buffer has cost.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/mroce/burst.h"
#include "net/local_addresses.h"
#include "net/sockets.h"

namespace mroce::net {

struct Received {
  RxMeta meta;
  std::span<const std::byte> bytes;  // valid until the next receive()
  uint32_t segment_bytes = 0;
  uint64_t overflow = 0;  // datagrams that the kernel dropped on this socket since the last report
};

class ReceiveSockets {
 public:
  // Takes the first slot of 0..255 in which every address can be bound. Errors: a sentence with cause and
  // hint.
  static tl::expected<ReceiveSockets, std::string> open(const std::vector<LocalAddress>& addresses,
                                                        uint16_t base_port, uint64_t receive_buffer);

  uint8_t slot() const { return slot_; }
  size_t count() const { return sockets_.size(); }
  int fd(size_t index) const { return sockets_[index].fd.get(); }
  // Bytes that the kernel granted on the worst-off socket, without its doubling for bookkeeping.
  uint64_t granted_bytes() const { return granted_bytes_; }
  // One sentence with the sysctl to set, if the granted buffers are small; else empty.
  const std::string& hint() const { return hint_; }

  // One super-packet of socket `index` if there is one. Never blocks.
  std::optional<Received> receive(size_t index);
  uint64_t truncated() const { return truncated_; }
  void close() { sockets_.clear(); }

 private:
  struct Socket {
    FileDescriptor fd;
    uint32_t overflows = 0;  // the kernel's counter at the last report
  };

  tl::expected<bool, std::string> try_slot(const std::vector<LocalAddress>& addresses, uint16_t port);
  void grow_buffers(uint64_t wanted);

  std::vector<Socket> sockets_;
  std::unique_ptr<std::byte[]> buffer_;
  uint8_t slot_ = 0;
  uint64_t granted_bytes_ = 0;
  uint64_t truncated_ = 0;
  std::string hint_;
};

}  // namespace mroce::net
