#include "net/link_watch.h"

#include <fmt/core.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mroce::net {
namespace {

constexpr int kMessagesAPoll = 64;

bool is_up(unsigned flags) {
  return (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
}

}  // namespace

tl::expected<LinkWatch, std::string> LinkWatch::open() {
  LinkWatch watch;
  watch.socket_ = FileDescriptor(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (!watch.socket_ ||
      bind(watch.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return tl::unexpected(fmt::format("cannot watch the links: {}; are sockets of family AF_NETLINK allowed?",
                                      std::strerror(errno)));
  }
  return watch;
}

void LinkWatch::follow(const std::vector<LocalAddress>& addresses) {
  for (const LocalAddress& address : addresses) links_[address.ifindex] = {address.interface, address.up};
}

void LinkWatch::note(uint32_t ifindex, bool up, std::vector<LinkChange>& changes) {
  const auto link = links_.find(ifindex);
  if (link == links_.end() || link->second.up == up) return;
  link->second.up = up;
  changes.push_back({ifindex, up});
}

void LinkWatch::read_all_states(std::vector<LinkChange>& changes) {
  const FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (auto& [ifindex, link] : links_) {
    ifreq request{};
    link.name.copy(request.ifr_name, IFNAMSIZ - 1);
    const bool known = ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0;
    note(ifindex, known && is_up(static_cast<unsigned short>(request.ifr_flags)), changes);
  }
}

void LinkWatch::read_messages(const char* bytes, size_t length, std::vector<LinkChange>& changes) {
  size_t at = 0;
  while (length - at >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > length - at) return;
    const bool about_link = header.nlmsg_type == RTM_NEWLINK || header.nlmsg_type == RTM_DELLINK;
    if (about_link && header.nlmsg_len >= NLMSG_LENGTH(sizeof(ifinfomsg))) {
      ifinfomsg info;
      std::memcpy(&info, bytes + at + NLMSG_HDRLEN, sizeof info);
      // Bridges report their members with family AF_BRIDGE; those messages say nothing about the link itself.
      if (info.ifi_family == AF_UNSPEC && info.ifi_index > 0) {
        note(static_cast<uint32_t>(info.ifi_index), header.nlmsg_type == RTM_NEWLINK && is_up(info.ifi_flags),
             changes);
      }
    }
    const size_t step = NLMSG_ALIGN(header.nlmsg_len);
    if (step >= length - at) return;
    at += step;
  }
}

std::vector<LinkChange> LinkWatch::poll() {
  std::vector<LinkChange> changes;
  alignas(nlmsghdr) std::array<char, 32768> buffer;
  for (int i = 0; i < kMessagesAPoll; ++i) {
    sockaddr_nl from{};
    socklen_t from_length = sizeof from;
    const ssize_t length = recvfrom(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                    reinterpret_cast<sockaddr*>(&from), &from_length);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == ENOBUFS) {
      read_all_states(changes);
      continue;
    }
    if (length <= 0) break;
    if (from.nl_pid != 0) continue;  // only the kernel is believed
    read_messages(buffer.data(), static_cast<size_t>(length), changes);
  }
  return changes;
}

}  // namespace mroce::net
