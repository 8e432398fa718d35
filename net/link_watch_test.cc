#include "net/link_watch.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cstring>

#include "net/test_support.h"

namespace mroce::net {
namespace {

bool set_loopback(bool up) {
  const FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

bool changes_to(LinkWatch& watch, bool up) {
  pollfd waiting{watch.fd(), POLLIN, 0};
  while (poll(&waiting, 1, 5000) == 1) {
    for (const LinkChange& change : watch.poll()) {
      if (change.ifindex == 1) return change.up == up;
    }
  }
  return false;
}

int watch_loopback_go_down_and_up() {
  if (!set_loopback(true)) return 1;
  auto watch = LinkWatch::open();
  if (!watch) return 2;
  auto addresses = find_local_addresses("127.0.0.1");
  if (!addresses || !addresses->front().up) return 3;
  watch->follow(*addresses);
  if (!set_loopback(false) || !changes_to(*watch, false)) return 4;
  if (!set_loopback(true) || !changes_to(*watch, true)) return 5;
  return watch->poll().empty() ? 0 : 6;  // each change is reported once
}

int survive_an_overrun() {
  if (!set_loopback(true)) return 1;
  auto watch = LinkWatch::open();
  auto addresses = find_local_addresses("127.0.0.1");
  if (!watch || !addresses) return 2;
  watch->follow(*addresses);
  set_option(watch->fd(), SOL_SOCKET, SO_RCVBUF, 1);  // room for one message or two
  for (int i = 0; i < 200; ++i) set_loopback(i % 2 == 1);
  set_loopback(false);  // its message is lost
  bool down = false;
  for (const LinkChange& change : watch->poll()) down = !change.up;
  return down ? 0 : 3;
}

TEST(LinkWatch, tells_when_a_link_goes_down_and_comes_back_in_an_unprivileged_namespace) {
  const int result = in_own_network(watch_loopback_go_down_and_up);
  if (result == kNoNamespace) MROCE_CANNOT("this system allows no user namespaces");
  EXPECT_EQ(result, 0);
}

TEST(LinkWatch, reads_the_states_afresh_when_the_kernel_had_to_drop_messages) {
  const int result = in_own_network(survive_an_overrun);
  if (result == kNoNamespace) MROCE_CANNOT("this system allows no user namespaces");
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace mroce::net
