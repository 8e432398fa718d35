#include "net/receive_sockets.h"

#include <fmt/core.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mroce::net {
namespace {

constexpr uint32_t kSlots = 256;
constexpr size_t kBufferBytes = 128 * 1024;     // a super-packet is below 64 KiB
constexpr uint64_t kSmallBuffer = 1024 * 1024;  // below this, bursts of one window overflow

bool set_receive_options(int fd, bool v4) {
  if (!v4 && !set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) return false;
  set_option(fd, IPPROTO_UDP, UDP_GRO, 1);  // before Linux 5.0 there is none: datagrams come one by one
  set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  return v4 ? set_option(fd, IPPROTO_IP, IP_RECVTOS, 1) : set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
}

// What the control messages of one receive say.
struct Control {
  uint32_t segment_bytes = 0;
  uint8_t traffic_class = 0;
  std::optional<uint32_t> overflows;
};

template <class T>
T data_of(cmsghdr* message) {
  T value{};
  const size_t length = message->cmsg_len - CMSG_LEN(0);
  std::memcpy(&value, CMSG_DATA(message), std::min(sizeof value, length));
  return value;
}

Control read_control(msghdr& message) {
  Control control;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      control.segment_bytes = static_cast<uint32_t>(std::max(data_of<int>(c), 0));
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      control.traffic_class = data_of<uint8_t>(c);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      control.traffic_class = static_cast<uint8_t>(data_of<int>(c));
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      control.overflows = data_of<uint32_t>(c);
    }
  }
  return control;
}

}  // namespace

tl::expected<bool, std::string> ReceiveSockets::try_slot(const std::vector<LocalAddress>& addresses,
                                                         uint16_t port) {
  sockets_.clear();
  for (const LocalAddress& address : addresses) {
    const bool v4 = address.gid.is_v4_mapped();
    FileDescriptor fd(socket(family_of(address.gid), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd || !set_receive_options(fd.get(), v4)) {
      return tl::unexpected(
          fmt::format("cannot open a UDP socket for {}: {}; is the limit of open files (ulimit -n) reached?",
                      to_string(address.gid), std::strerror(errno)));
    }
    const SocketAddress local = socket_address({address.gid, port}, address.ifindex);
    if (bind(fd.get(), local.get(), local.length) != 0) {
      if (errno == EADDRINUSE) return false;
      return tl::unexpected(
          fmt::format("cannot bind {} port {}: {}; name the addresses to use with MROCE_ADDRESSES",
                      to_string(address.gid), port, std::strerror(errno)));
    }
    sockets_.push_back({std::move(fd), 0});
  }
  return true;
}

void ReceiveSockets::grow_buffers(uint64_t wanted) {
  const int value = static_cast<int>(std::min<uint64_t>(wanted, INT32_MAX / 2));
  granted_bytes_ = UINT64_MAX;
  for (const Socket& socket : sockets_) {
    // The first needs CAP_NET_ADMIN and ignores the limit rmem_max, the second is cut at it.
    if (!set_option(socket.fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, value)) {
      set_option(socket.fd.get(), SOL_SOCKET, SO_RCVBUF, value);
    }
    int doubled = 0;
    socklen_t length = sizeof doubled;
    getsockopt(socket.fd.get(), SOL_SOCKET, SO_RCVBUF, &doubled, &length);
    granted_bytes_ = std::min(granted_bytes_, static_cast<uint64_t>(std::max(doubled, 0)) / 2);
  }
  if (granted_bytes_ < std::min(kSmallBuffer, wanted)) {
    hint_ = fmt::format(
        "the kernel grants receive buffers of {} KiB, which costs packets at speed; allow more with "
        "`sysctl -w net.core.rmem_max={}`",
        granted_bytes_ / 1024, wanted);
  }
}

tl::expected<ReceiveSockets, std::string> ReceiveSockets::open(const std::vector<LocalAddress>& addresses,
                                                               uint16_t base_port, uint64_t receive_buffer) {
  ReceiveSockets result;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const uint32_t port = base_port + slot;
    if (port > UINT16_MAX) break;
    const auto bound = result.try_slot(addresses, static_cast<uint16_t>(port));
    if (!bound) return tl::unexpected(bound.error());
    if (!*bound) continue;
    result.slot_ = static_cast<uint8_t>(slot);
    result.buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
    result.grow_buffers(receive_buffer);
    return result;
  }
  return tl::unexpected(fmt::format(
      "all {} slots are taken: UDP ports {} to {} are in use on some local address; end other programs or "
      "choose other ports with MROCE_BASE_PORT",
      kSlots, base_port, base_port + kSlots - 1));
}

std::optional<Received> ReceiveSockets::receive(size_t index) {
  Socket& socket = sockets_[index];
  iovec slot{buffer_.get(), kBufferBytes};
  sockaddr_storage from;
  alignas(cmsghdr) char control_bytes[128];
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &slot;
  message.msg_iovlen = 1;
  message.msg_control = control_bytes;
  message.msg_controllen = sizeof control_bytes;
  const ssize_t length = recvmsg(socket.fd.get(), &message, MSG_DONTWAIT);
  if (length < 0)
    return std::nullopt;  // nothing there, or an error that ICMP brought and that is cleared by this

  const Control control = read_control(message);
  Received received;
  received.meta.port = static_cast<uint32_t>(index);
  received.meta.from = udp_address(from);
  received.meta.ecn = static_cast<Ecn>(control.traffic_class & 3);
  if (control.overflows) {
    received.overflow = *control.overflows - socket.overflows;  // 32 bits, wraps
    received.overflow &= UINT32_MAX;
    socket.overflows = *control.overflows;
  }
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    ++truncated_;
    return received;  // without bytes: a cut super-packet is no datagram of ours
  }
  received.bytes = {buffer_.get(), static_cast<size_t>(length)};
  received.segment_bytes = control.segment_bytes != 0 ? control.segment_bytes : static_cast<uint32_t>(length);
  return received;
}

}  // namespace mroce::net
