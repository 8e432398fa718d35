// From what the user set and the kernel granted to what the engine is told.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/mroce/config.h"
#include "net/local_addresses.h"
#include "net/settings.h"

namespace mroce::net {

struct EngineSurroundings {
  std::vector<LocalAddress> addresses;
  uint8_t slot = 0;
  uint64_t receive_buffer_bytes = 0;  // as granted
  uint64_t seed = 0;
  std::array<uint8_t, 16> endpoint_id{};
  std::optional<std::array<uint8_t, 32>> preshared_key;
};

EngineConfig engine_config(const Settings& settings, const EngineSurroundings& surroundings);

// The seed that the user set, or one from the system.
uint64_t choose_seed(const Settings& settings);
// 16 bytes from the system: two processes never share an endpoint id, not even with equal seeds.
std::array<uint8_t, 16> random_endpoint_id();
// Bytes for keys. Waits, if need be, until the system can give such; there is nothing to fall back on.
void secret_bytes(std::span<uint8_t> out);

}  // namespace mroce::net
