#include "cli/device.h"

#include <dlfcn.h>
#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace mroce::cli {
namespace {

// The GUID of the device that the verbs library shows, asked of the library itself: sysfs has to say the
// same. This also finds a library that does not load before a program stumbles over it.
Outcome<std::string> library_guid(const std::filesystem::path& folder) {
  const std::string file = folder / "libibverbs.so.1";
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return failure(kEnvironment, fmt::format("our verbs library does not load: {}", ::dlerror()),
                   "build it again");
  }
  const auto list_devices = reinterpret_cast<void** (*)(int*)>(::dlsym(library, "ibv_get_device_list"));
  const auto free_list = reinterpret_cast<void (*)(void**)>(::dlsym(library, "ibv_free_device_list"));
  const auto guid_of = reinterpret_cast<uint64_t (*)(void*)>(::dlsym(library, "ibv_get_device_guid"));
  uint64_t guid = 0;
  if (list_devices != nullptr && free_list != nullptr && guid_of != nullptr) {
    int count = 0;
    void** const devices = list_devices(&count);
    if (devices != nullptr && count > 0) guid = be64toh(guid_of(devices[0]));
    if (devices != nullptr) free_list(devices);
  }
  ::dlclose(library);
  if (guid == 0) return failure(kInternal, file + " shows no device", "build it again");
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                     guid & 0xffff);
}

}  // namespace

std::string environment_name(std::string_view setting) {
  std::string name = "MROCE_";
  for (const char c : setting) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string gid_groups(const Gid& gid) {
  std::string text;
  for (size_t i = 0; i < gid.raw.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.raw[i], gid.raw[i + 1]);
  }
  return text;
}

Outcome<net::Settings> settings_with(const std::vector<Override>& overrides) {
  auto settings = net::Settings::from_environment();
  if (!settings) return failure(kUsage, settings.error(), "");
  for (const Override& one : overrides) {
    if (auto set = settings->set(one.setting, one.value, one.origin); !set)
      return failure(kUsage, set.error(), "");
  }
  return std::move(*settings);
}

Outcome<std::vector<net::LocalAddress>> gid_table(const net::Settings& settings) {
  auto table = net::find_local_addresses(settings.text("addresses"));
  if (!table) return failure(kEnvironment, table.error(), "");
  return std::move(*table);
}

Outcome<size_t> loopback_index(const std::vector<net::LocalAddress>& table) {
  const auto found = std::find_if(table.begin(), table.end(), [](const net::LocalAddress& address) {
    return address.gid.is_v4_mapped() && address.gid.is_loopback();
  });
  if (found == table.end()) {
    return failure(kEnvironment, "127.0.0.1 is not in the GID table", "bring loopback up: ip link set lo up");
  }
  return static_cast<size_t>(found - table.begin());
}

Outcome<DeviceView> device_view(const net::Settings& settings, const std::filesystem::path& libraries) {
  const auto guid = library_guid(libraries);
  if (!guid) return tl::unexpected(guid.error());
  const auto table = gid_table(settings);
  if (!table) return tl::unexpected(table.error());
  DeviceView view;
  view.device = settings.text("device_name");
  view.node_guid = *guid;
  view.firmware = MROCE_VERSION;
  for (const net::LocalAddress& address : *table) {
    view.gids.push_back({gid_groups(address.gid), address.interface});
  }
  return view;
}

}  // namespace mroce::cli
