#include "net/send_sockets.h"

#include <netinet/udp.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/assert.h"
#include "net/burst_slices.h"

namespace mroce::net {
namespace {

constexpr size_t kMaxVectors = 1024;          // UIO_MAXIOV
constexpr int kSendBuffer = 4 * 1024 * 1024;  // several windows, so that a burst is rarely refused
constexpr int kIcmpTries = 4;
constexpr int kReceiveBuffer = 1;  // the kernel's minimum: nothing is expected here

constexpr uint32_t kHabit = 16;  // bursts of another codepoint in a row that change the socket's

// One sendmsg. `to` without a length means the peer that the socket is connected to; `segment_bytes` 0 sends
// one datagram. Returns 0 or errno.
int send_slices(int fd, const SocketAddress& to, std::span<const Slice> slices, uint16_t segment_bytes,
                int traffic_class, bool v4) {
  std::array<iovec, kMaxVectors> vectors;
  if (slices.size() > vectors.size()) return EMSGSIZE;
  for (size_t i = 0; i < slices.size(); ++i) {
    vectors[i] = {const_cast<std::byte*>(slices[i].data), slices[i].length};
  }
  msghdr message{};
  if (to.length != 0) {
    message.msg_name = const_cast<sockaddr*>(to.get());
    message.msg_namelen = to.length;
  }
  message.msg_iov = vectors.data();
  message.msg_iovlen = slices.size();

  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int))> control{};
  size_t used = 0;
  const auto add = [&]<class T>(int level, int type, T value) {
    cmsghdr header{};
    header.cmsg_len = CMSG_LEN(sizeof value);
    header.cmsg_level = level;
    header.cmsg_type = type;
    std::memcpy(control.data() + used, &header, sizeof header);
    std::memcpy(control.data() + used + CMSG_LEN(0), &value, sizeof value);
    used += CMSG_SPACE(sizeof value);
  };
  if (segment_bytes != 0) add(IPPROTO_UDP, UDP_SEGMENT, segment_bytes);
  if (traffic_class >= 0) {
    add(v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, v4 ? IP_TOS : IPV6_TCLASS, traffic_class);
  }
  if (used > 0) {
    message.msg_control = control.data();
    message.msg_controllen = used;
  }
  // A connected socket reports at the next call what ICMP said about an earlier datagram (connection refused,
  // no route to host): anybody can forge that, and the peer's silence says it better.
  for (int tries = 0; sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0; ++tries) {
    const bool icmp = errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENOPROTOOPT;
    if (errno != EINTR && !(icmp && tries < kIcmpTries)) return errno;
  }
  return 0;
}

bool is_full(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

}  // namespace

SendSockets::SendSockets(std::vector<LocalAddress> addresses, size_t limit)
    : addresses_(std::move(addresses)), limit_(std::max<size_t>(limit, 1)) {}

void SendSockets::close() {
  by_key_.clear();
  by_use_.clear();
}

SendSockets::Socket* SendSockets::open_socket(uint32_t key, const LocalAddress& local) {
  const bool v4 = local.gid.is_v4_mapped();
  FileDescriptor fd(socket(family_of(local.gid), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return nullptr;
  if (!v4) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (v4) {
    set_option(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
  } else {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  }
  if (!set_option(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, kSendBuffer)) {
    set_option(fd.get(), SOL_SOCKET, SO_SNDBUF, kSendBuffer);
  }
  set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBuffer);
  // A socket that was closed for want of room comes back with the source port that it had, if that is still
  // free: another one would be another way through the network, of which the engine knows nothing.
  const auto bind_to = [&](uint16_t port) {
    const SocketAddress address = socket_address({local.gid, port}, local.ifindex);
    return bind(fd.get(), address.get(), address.length) == 0;
  };
  const auto before = source_ports_.find(key);
  if (!(before != source_ports_.end() && bind_to(before->second)) && !bind_to(0)) return nullptr;
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return nullptr;

  if (by_use_.size() >= limit_) {
    by_key_.erase(by_use_.back().key);
    by_use_.pop_back();
    ++counters_.sockets_closed;
  }
  by_use_.push_front(
      Socket{.key = key, .fd = std::move(fd), .source_port = udp_address(bound).port, .peer = {}});
  by_key_[key] = by_use_.begin();
  source_ports_[key] = by_use_.front().source_port;
  ++counters_.sockets_opened;
  return &by_use_.front();
}

SendSockets::Socket* SendSockets::socket_for(uint32_t port, uint16_t entropy) {
  MROCE_ASSERT(port < addresses_.size());
  const uint32_t key = port << 16 | entropy;
  if (!by_use_.empty() && by_use_.front().key == key) return &by_use_.front();
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return open_socket(key, addresses_[port]);
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return &by_use_.front();
}

uint16_t SendSockets::source_port(uint32_t port, uint16_t entropy) {
  const Socket* socket = socket_for(port, entropy);
  return socket != nullptr ? socket->source_port : uint16_t{0};
}

int SendSockets::descriptor(uint32_t port, uint16_t entropy) {
  const Socket* socket = socket_for(port, entropy);
  return socket != nullptr ? socket->fd.get() : -1;
}

// Empty for the peer of the socket, which is the first that anything is sent to; others are named each time.
SocketAddress SendSockets::destination(Socket& socket, const TxBurst& burst) const {
  if (socket.peer == burst.to) return {};
  SocketAddress to = socket_address(burst.to, addresses_[burst.port].ifindex);
  if (socket.peer || connect(socket.fd.get(), to.get(), to.length) != 0) return to;
  socket.peer = burst.to;
  return {};
}

SendResult SendSockets::send(const TxBurst& burst) {
  MROCE_ASSERT(burst.segments >= 1 && burst.segments <= kMaxSegments && burst.total_bytes <= kMaxBurstBytes);
  Socket* socket = socket_for(burst.port, burst.entropy);
  if (socket == nullptr || family_of(burst.to.ip) != family_of(addresses_[burst.port].gid)) {
    ++counters_.errors;
    return {SendOutcome::kError, 0, socket == nullptr ? errno : EAFNOSUPPORT};
  }
  const SocketAddress to = destination(*socket, burst);
  SendResult result;
  if (burst.segments == 1 || socket->gso) {
    result = send_whole(*socket, burst, to);
  } else {
    result = send_one_by_one(*socket, burst, to);
  }
  if (result.outcome == SendOutcome::kWouldBlock) ++counters_.would_block;
  if (result.outcome == SendOutcome::kError) ++counters_.errors;
  return result;
}

SendResult SendSockets::send_whole(Socket& socket, const TxBurst& burst, const SocketAddress& to) {
  const bool v4 = burst.to.ip.is_v4_mapped();
  const auto traffic_class = static_cast<uint8_t>(burst.ecn);
  socket.others_in_a_row = traffic_class != socket.traffic_class ? socket.others_in_a_row + 1 : 0;
  if (socket.others_in_a_row >= kHabit && burst.ecn != Ecn::kCe) {
    // Setting it once is cheaper than sending it along each time, but makes the kernel look for the route
    // again: not for the acknowledgements between data.
    const bool set = v4 ? set_option(socket.fd.get(), IPPROTO_IP, IP_TOS, traffic_class)
                        : set_option(socket.fd.get(), IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
    if (set) socket.traffic_class = traffic_class;
  }
  const int along = traffic_class != socket.traffic_class ? int{traffic_class} : -1;
  const auto segment_bytes = static_cast<uint16_t>(burst.segments > 1 ? burst.segment_bytes : 0);
  const int error = send_slices(socket.fd.get(), to, burst.slices, segment_bytes, along, v4);
  if (error == 0) {
    ++counters_.calls;
    return {SendOutcome::kSent, burst.segments, 0};
  }
  if (is_full(error)) return {SendOutcome::kWouldBlock, 0, 0};
  const bool maybe_gso = error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP;
  if (burst.segments > 1 && maybe_gso) {
    if (error == EIO) socket.gso = false;  // the device cannot; the others may be about this burst only
    return send_one_by_one(socket, burst, to);
  }
  return {SendOutcome::kError, 0, error};
}

SendResult SendSockets::send_one_by_one(Socket& socket, const TxBurst& burst, const SocketAddress& to) {
  const bool v4 = burst.to.ip.is_v4_mapped();
  const int along =
      static_cast<uint8_t>(burst.ecn) != socket.traffic_class ? static_cast<int>(burst.ecn) : -1;
  ++counters_.gso_refused;
  SliceCutter cutter(burst.slices);
  std::vector<Slice> segment;
  for (uint32_t i = 0; i < burst.segments; ++i) {
    segment.clear();
    cutter.take(segment_length(burst, i), segment);
    const int error = send_slices(socket.fd.get(), to, segment, 0, along, v4);
    if (is_full(error)) return {SendOutcome::kWouldBlock, i, 0};
    if (error != 0) return {SendOutcome::kError, i, error};
    ++counters_.calls;
  }
  return {SendOutcome::kSent, burst.segments, 0};
}

}  // namespace mroce::net
