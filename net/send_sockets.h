// SendSockets: the sockets that bursts leave from, one for each (local address, entropy) in use.
//
// Each has an ephemeral source port of its own, which is what makes routers hash it onto its own route. They
// are opened at first use; beyond a limit the one that was idle longest is closed (its entropy gets another
// source port when it is used again). They never receive anything: peers answer to the port of the slot.
//
// A burst of several segments is one sendmsg with UDP_SEGMENT. Where the kernel or the device cannot segment
// (EIO, EINVAL), the segments go one by one, and that socket stops trying. Nothing is ever fragmented: DF is
// set and routes' cached MTUs, which anybody can forge by ICMP, are not looked at (IP_PMTUDISC_PROBE).
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/mroce/burst.h"
#include "net/local_addresses.h"
#include "net/sockets.h"

namespace mroce::net {

enum class SendOutcome : uint8_t { kSent, kWouldBlock, kError };

struct SendResult {
  SendOutcome outcome = SendOutcome::kSent;
  uint32_t segments = 0;  // handed over; the rest of the burst was not
  int error = 0;          // errno of kError
};

// X(name, sentence)
#define MROCE_SEND_COUNTERS(X)                                    \
  X(calls, "system calls that sent something")                    \
  X(would_block, "times a socket buffer was full")                \
  X(errors, "bursts that the kernel refused")                     \
  X(gso_refused, "bursts that had to be sent segment by segment") \
  X(sockets_opened, "sending sockets opened")                     \
  X(sockets_closed, "sending sockets closed because of the limit")

struct SendCounters {
#define MROCE_SEND_COUNTER(name, sentence) uint64_t name = 0;
  MROCE_SEND_COUNTERS(MROCE_SEND_COUNTER)
#undef MROCE_SEND_COUNTER
};

class SendSockets {
 public:
  static constexpr size_t kDefaultLimit = 256;

  explicit SendSockets(std::vector<LocalAddress> addresses, size_t limit = kDefaultLimit);

  SendResult send(const TxBurst& burst);
  // The UDP source port that `burst` would have; 0 if its socket cannot be opened.
  uint16_t source_port(uint32_t port, uint16_t entropy);
  int descriptor(uint32_t port, uint16_t entropy);  // -1 if it cannot be opened; to change options in tests
  size_t open_sockets() const { return by_use_.size(); }
  const SendCounters& counters() const { return counters_; }
  void close();

 private:
  struct Socket {
    uint32_t key = 0;  // port << 16 | entropy
    FileDescriptor fd;
    uint16_t source_port = 0;
    std::optional<UdpAddress> peer;  // connected to it: the kernel need not look for the route each time
    uint8_t traffic_class = 0;       // what the socket option says
    uint32_t others_in_a_row = 0;    // bursts with another one
    bool gso = true;
  };

  Socket* socket_for(uint32_t port, uint16_t entropy);
  Socket* open_socket(uint32_t key, const LocalAddress& local);
  SocketAddress destination(Socket& socket, const TxBurst& burst) const;
  SendResult send_whole(Socket& socket, const TxBurst& burst, const SocketAddress& to);
  SendResult send_one_by_one(Socket& socket, const TxBurst& burst, const SocketAddress& to);

  std::vector<LocalAddress> addresses_;
  size_t limit_;
  std::list<Socket> by_use_;  // most recently used first
  std::unordered_map<uint32_t, std::list<Socket>::iterator> by_key_;
  std::unordered_map<uint32_t, uint16_t>
      source_ports_;  // that each key had last; at most 64 × kEntropies of them
  SendCounters counters_;
};

}  // namespace mroce::net
