#include <algorithm>

#include "doctor/rulebook.h"

namespace mroce::doctor {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::vector<VendorMatch> VendorMap::find(std::string_view vendor, std::string_view from,
                                         std::string_view name) const {
  std::vector<VendorMatch> out;
  const auto look = [&](const std::string& pattern, int8_t priority) {
    const auto [begin, end] = by_pattern_.equal_range(pattern);
    for (auto at = begin; at != end; ++at) {
      const VendorName& entry = names_[at->second];
      const bool universal = entry.vendor == "ib" || entry.vendor == "any";
      if (!vendor.empty() && entry.vendor != vendor && !universal) continue;
      if (!from.empty() && entry.from != from && !(from == "hw_counters" && entry.from == "dev_hw_counters"))
        continue;
      out.push_back({&entry, priority});
    }
  };
  if (name.empty() || name.size() > 64) return out;
  look(std::string(name), -1);
  for (size_t i = 0; i < name.size() && out.empty(); ++i) {
    if (name[i] < '0' || name[i] > '7') continue;
    if ((i > 0 && digit(name[i - 1])) || (i + 1 < name.size() && digit(name[i + 1]))) continue;
    std::string pattern(name);
    pattern.replace(i, 1, "{N}");
    look(pattern, static_cast<int8_t>(name[i] - '0'));
  }
  return out;
}

std::string_view VendorMap::vendor_of_driver(std::string_view driver_or_device) const {
  for (const auto& [prefix, vendor] : prefixes_)
    if (driver_or_device.starts_with(prefix)) return vendor;
  return {};
}

const Canonical* VendorMap::canonical(std::string_view name) const {
  const auto found = canonicals_.find(name);
  return found == canonicals_.end() ? nullptr : &found->second;
}

}  // namespace mroce::doctor
