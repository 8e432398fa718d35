// Where the command line meets the library's settings and addresses.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/outcome.h"
#include "cli/view.h"
#include "core/base/address.h"
#include "net/local_addresses.h"
#include "net/settings.h"

namespace mroce::cli {

struct Override {
  std::string setting;
  std::string value;
  std::string origin;  // "flag --paths"
};

// The settings that a program gets: this process's environment and file, then `overrides`, all checked.
Outcome<net::Settings> settings_with(const std::vector<Override>& overrides);

// "MROCE_PATHS" for "paths".
std::string environment_name(std::string_view setting);

// The GID table of a program with these settings.
Outcome<std::vector<net::LocalAddress>> gid_table(const net::Settings& settings);

// The index of 127.0.0.1 in it.
Outcome<size_t> loopback_index(const std::vector<net::LocalAddress>& table);

// What /sys/class/infiniband shows for these settings and the verbs library in `libraries`.
Outcome<DeviceView> device_view(const net::Settings& settings, const std::filesystem::path& libraries);

// Eight groups of four hexadecimal digits, as the kernel prints a GID.
std::string gid_groups(const Gid& gid);

}  // namespace mroce::cli
