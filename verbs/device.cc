// The device list. It needs no network: a program may list devices where it cannot open one.
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "net/settings.h"
#include "verbs/device.h"
#include "verbs/export.h"
#include "verbs/keep_errno.h"

namespace mroce::verbs {
namespace {

using Guid = std::array<uint8_t, 8>;

// EUI-64 of the Ethernet address of the first interface (by index) that has one.
bool guid_from_mac(Guid& out) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const sockaddr_ll* first = nullptr;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto* link = reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr);
    const bool zero = std::all_of(link->sll_addr, link->sll_addr + 6, [](uint8_t byte) { return byte == 0; });
    if (link->sll_halen != 6 || zero) continue;
    if (first == nullptr || link->sll_ifindex < first->sll_ifindex) first = link;
  }
  if (first != nullptr) {
    const uint8_t* mac = first->sll_addr;
    out = {static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  }
  freeifaddrs(list);
  return first != nullptr;
}

// FNV-1a of the host id and name, marked as locally administered.
Guid guid_from_host() {
  std::string text = std::to_string(gethostid());
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) text += name;
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  Guid out;
  std::memcpy(out.data(), &hash, out.size());
  out[0] = static_cast<uint8_t>((out[0] | 2) & ~1);
  return out;
}

std::string device_name() {
  const auto settings = net::Settings::from_environment();
  const std::string name = settings ? settings->text("device_name") : std::string();
  const bool fits = !name.empty() && name.size() < IBV_SYSFS_NAME_MAX && name.find('/') == std::string::npos;
  return fits ? name : "mroce0";
}

template <size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

ibv_context* not_a_driver(ibv_device*, int) {
  errno = ENOSYS;
  return nullptr;
}
void nothing(ibv_context*) {}

Device* make_device() {
  const KeepErrno guard;
  auto* device = new Device;
  device->ops = device->no_ops.data();
  device->ibv._ops._dummy1 = not_a_driver;
  device->ibv._ops._dummy2 = nothing;
  device->ibv.node_type = IBV_NODE_CA;
  device->ibv.transport_type = IBV_TRANSPORT_IB;
  const std::string name = device_name();
  copy_text(device->ibv.name, name);
  copy_text(device->ibv.dev_name, "uverbs0");
  copy_text(device->ibv.dev_path, "/sys/class/infiniband_verbs/uverbs0");
  copy_text(device->ibv.ibdev_path, "/sys/class/infiniband/" + name);
  Guid guid;
  if (!guid_from_mac(guid)) guid = guid_from_host();
  std::memcpy(&device->guid, guid.data(), guid.size());
  return device;
}

}  // namespace

// One for the life of the process: programs keep the pointer after ibv_free_device_list().
Device& the_device() {
  static Device* const device = make_device();
  return *device;
}

VERBS_EXPORT(ibv_get_device_list);
ibv_device** impl_ibv_get_device_list(int* count) try {
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (count != nullptr) *count = list != nullptr ? 1 : 0;
  if (list != nullptr) list[0] = &the_device().ibv;
  return list;
} catch (const std::exception&) {
  if (count != nullptr) *count = 0;
  errno = ENOMEM;
  return nullptr;
}

VERBS_EXPORT(ibv_free_device_list);
void impl_ibv_free_device_list(ibv_device** list) {
  std::free(list);
}

VERBS_EXPORT(ibv_get_device_name);
const char* impl_ibv_get_device_name(ibv_device* device) {
  return device->name;
}

VERBS_EXPORT(ibv_get_device_guid);
__be64 impl_ibv_get_device_guid(ibv_device* device) {
  return reinterpret_cast<Device*>(device)->guid;
}

VERBS_EXPORT(ibv_get_device_index);
int impl_ibv_get_device_index(ibv_device*) {
  return 0;
}

}  // namespace mroce::verbs
