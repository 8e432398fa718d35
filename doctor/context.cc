#include <fmt/format.h>

#include <algorithm>

#include "doctor/ingest.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxProblems = 1000;
constexpr size_t kMaxReadings = 100'000;  // of one counter
constexpr size_t kMaxCounters = 20'000;   // of one port
constexpr size_t kMaxEvents = 1'000'000;

}  // namespace

Host& Context::this_host() {
  if (host_ == nullptr || host_name_ != host) {
    host_ = &evidence.host(host);
    host_name_ = host;
    if (role != Role::kUnknown) host_->role = role;
  }
  return *host_;
}

Port& Context::this_port() {
  return evidence.port(this_host(), device, port_number, netdev);
}

Port& Context::port(std::string_view device_name, uint32_t number, std::string_view netdev_name) {
  return evidence.port(this_host(), device_name, number, netdev_name);
}

void Context::count(Port& port, std::string_view from, std::string_view name, uint64_t value, uint32_t line) {
  if (!keep_unknown && !book.vendors.knows(name)) return;
  const auto same = [&](const Counter& c) { return c.vendor_name == name && c.from == from; };
  auto found = std::find_if(port.counters.begin(), port.counters.end(), same);
  if (found == port.counters.end()) {
    if (port.counters.size() >= kMaxCounters) return;
    Counter counter;
    counter.vendor_name = std::string(name);
    counter.from = std::string(from);
    found = port.counters.insert(port.counters.end(), std::move(counter));
  }
  if (found->readings.size() < kMaxReadings) found->readings.push_back({value, time_ns, phase, where(line)});
}

void Context::set(Port& port, std::string_view name, std::string_view text, uint32_t line) {
  add_setting(port.settings, name, text, phase, where(line));
}

void Context::set_host(std::string_view name, std::string_view text, uint32_t line) {
  add_setting(this_host().settings, name, text, phase, where(line));
}

void Context::event(std::string_view kind, std::string_view detail, uint32_t line) {
  if (evidence.events.size() >= kMaxEvents) return;
  Event& event = evidence.events.emplace_back();
  event.host = host;
  event.kind = std::string(kind);
  event.detail = std::string(detail.substr(0, 400));
  event.where = where(line);
  this_host();
}

void Context::problem(uint32_t line, std::string reason) {
  if (evidence.problems.size() == kMaxProblems) reason = "and more problems that are not listed";
  if (evidence.problems.size() > kMaxProblems) return;
  evidence.problems.push_back({where(line), std::move(reason)});
}

}  // namespace mroce::doctor
