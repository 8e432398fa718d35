#include "doctor/evidence.h"

#include <algorithm>

namespace mroce::doctor {

std::string Port::name() const {
  if (!device.empty()) return device + "/" + std::to_string(number);
  return netdev.empty() ? "port" : netdev;
}

Host& Evidence::host(std::string_view name) {
  if (by_name_.size() != hosts.size()) {  // somebody has added some without us
    by_name_.clear();
    for (size_t i = 0; i < hosts.size(); ++i) by_name_.emplace(hosts[i].name, i);
  }
  if (const auto found = by_name_.find(name); found != by_name_.end()) return hosts[found->second];
  if (hosts.size() >= kMaxHosts) {
    complain_once("too many hosts: what others say was not read");
    beyond_host_ = Host();
    return beyond_host_;
  }
  by_name_.emplace(name, hosts.size());
  Host& added = hosts.emplace_back();
  added.name = std::string(name);
  return added;
}

void Evidence::complain_once(std::string reason) {
  const auto same = [&](const Problem& problem) { return problem.reason == reason; };
  if (std::none_of(problems.begin(), problems.end(), same)) problems.push_back({{}, std::move(reason)});
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
  if (found == nullptr && (host.ports.size() >= kMaxPorts || &host == &beyond_host_)) {
    if (&host != &beyond_host_) complain_once("too many ports of one host: what others say was not read");
    beyond_port_ = Port();
    return beyond_port_;
  }
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
