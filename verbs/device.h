// The device that programs see.
#pragma once

#include <infiniband/verbs.h>

#include <array>

namespace mroce::verbs {

// Driver libraries compare the pointer that follows ibv_device with their own, to tell whether a device is
// theirs (mlx5dv_is_supported): it must be there, and point to something readable.
struct Device {
  ibv_device ibv{};
  const void* ops = nullptr;
  std::array<void*, 64> no_ops{};
  __be64 guid = 0;
};

Device& the_device();

}  // namespace mroce::verbs
