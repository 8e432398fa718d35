#include "doctor/evidence.h"

#include <algorithm>

namespace mroce::doctor {

std::string Port::name() const {
  if (!device.empty()) return device + "/" + std::to_string(number);
  return netdev.empty() ? "port" : netdev;
}

Host& Evidence::host(std::string_view name) {
  for (auto& host : hosts)
    if (host.name == name) return host;
  Host& added = hosts.emplace_back();
  added.name = std::string(name);
  return added;
}

Port& Evidence::port(Host& host, std::string_view device, uint32_t number, std::string_view netdev) {
  Port* found = nullptr;
  for (auto& port : host.ports) {
    const bool same_device = !device.empty() && port.device == device && port.number == number;
    const bool same_netdev = !netdev.empty() && port.netdev == netdev;
    if (same_device || same_netdev) {
      found = &port;
      if (same_device) break;
    }
  }
  if (found == nullptr && device.empty() && netdev.empty() && !host.ports.empty()) return host.ports.front();
  if (found == nullptr) {
    found = &host.ports.emplace_back();
    found->number = number;
  }
  if (found->device.empty() && !device.empty()) {
    found->device = std::string(device);
    found->number = number;
  }
  if (found->netdev.empty()) found->netdev = std::string(netdev);
  return *found;
}

void add_setting(Settings& settings, std::string_view name, std::string_view text, Phase phase, Where where) {
  auto& values = settings[std::string(name)];
  if (!values.empty() && values.back().text == text) return;
  values.push_back({std::string(text), phase, where});
}

const Setting* last_setting(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found == settings.end() || found->second.empty() ? nullptr : &found->second.back();
}

}  // namespace mroce::doctor
