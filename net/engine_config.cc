#include "net/engine_config.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/assert.h"
#include "core/base/rng.h"
#include "net/setting_rules.h"
#include "net/sockets.h"

namespace mroce::net {
namespace {

void fill_random(void* out, size_t length) {
  if (getrandom(out, length, GRND_NONBLOCK) == static_cast<ssize_t>(length)) return;
  // Only very early in boot. Process id and time still tell two processes of a host apart.
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  Rng rng(static_cast<uint64_t>(now.tv_nsec) ^ static_cast<uint64_t>(now.tv_sec) << 30 ^
          static_cast<uint64_t>(getpid()) << 44);
  auto* bytes = static_cast<unsigned char*>(out);
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<unsigned char>(rng.next());
}

}  // namespace

uint64_t choose_seed(const Settings& settings) {
  if (const auto seed = parse_number(settings.text("seed"))) return *seed;
  uint64_t seed = 0;
  fill_random(&seed, sizeof seed);
  return seed;
}

std::array<uint8_t, 16> random_endpoint_id() {
  std::array<uint8_t, 16> id{};
  fill_random(id.data(), id.size());
  return id;
}

void secret_bytes(std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    MROCE_ASSERT(got > 0);
    out = out.subspan(static_cast<size_t>(got));
  }
}

namespace {
SecurityPolicy policy_of(const std::string& text) {
  if (text == "require") return SecurityPolicy::kRequire;
  return text == "prefer" ? SecurityPolicy::kPrefer : SecurityPolicy::kOff;
}
}  // namespace

EngineConfig engine_config(const Settings& settings, const EngineSurroundings& surroundings) {
  EngineConfig config;
  config.seed = surroundings.seed;
  config.endpoint_id = surroundings.endpoint_id;
  config.slot = surroundings.slot;
  config.entropy = secret_bytes;
  config.security = policy_of(settings.text("security"));
  config.preshared_key = surroundings.preshared_key;
  config.key_update_packets = settings.number("key_update");
  config.base_port = static_cast<uint16_t>(settings.number("base_port"));
  config.max_paths = static_cast<uint32_t>(settings.number("paths"));
  config.max_planes = static_cast<uint32_t>(settings.number("planes"));
  config.max_payload = static_cast<uint32_t>(settings.number("max_payload"));
  config.window_bytes = static_cast<uint32_t>(settings.number("window"));
  config.receive_buffer_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(surroundings.receive_buffer_bytes, UINT32_MAX));
  config.ecn = settings.flag("ecn");
  config.tail_hold = !settings.flag("relaxed");
  for (const LocalAddress& address : surroundings.addresses) {
    LocalPort port;
    port.address = address.gid;
    port.prefix_bits = address.prefix_bits;
    port.link_mtu = address.link_mtu;
    port.up = address.up;  // rates stay unknown: loopback has none and virtual links report invented ones
    config.ports.push_back(port);
  }
  // The route decides, not the interface of the address: a host reaches its own addresses through loopback.
  config.link_mtu_to = [addresses = surroundings.addresses](uint32_t port, const Gid& remote) {
    const LocalAddress& local = addresses[port];
    const uint32_t mtu = path_mtu(local.gid, remote, local.ifindex);
    return mtu != 0 ? mtu : local.link_mtu;
  };
  return config;
}

}  // namespace mroce::net
