// The mroce half of measure.h.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "cli/endpoint_side.h"
#include "cli/measure.h"
#include "cli/process_pair.h"
#include "cli/stopwatch.h"

namespace mroce::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kLimit{60};
constexpr double kWarmUpShare = 0.2;  // of the time of a measurement, before it

// Keeps the queue full of WRITEs of one size.
class Writer {
 public:
  Writer(EndpointSide& side, RemoteEnd remote, uint32_t bytes)
      : side_(side),
        remote_(std::move(remote)),
        bytes_(bytes),
        signal_every_(std::max(side.depth() / 8, 1u)) {}

  // Fills the queue and takes completions once.
  void step() {
    while (posted_ - completed_ < side_.depth()) post();
    take();
  }
  void finish() {
    while (posted_ % signal_every_ != 0) {
      if (posted_ - completed_ < side_.depth()) post();
      take();
    }
    while (completed_ < posted_) take();
  }
  void run_for(double seconds) {
    const auto end = in_seconds(seconds);
    while (SteadyClock::now() < end) step();
  }
  uint64_t completed_bytes() const { return completed_ * bytes_; }

 private:
  void post() {
    ++posted_;
    side_.post_write(remote_, bytes_, posted_ % signal_every_ == 0);
  }
  void take() {
    std::array<Wc, 16> wcs;
    completed_ += uint64_t{signal_every_} * side_.poll(wcs);
  }

  EndpointSide& side_;
  RemoteEnd remote_;
  uint32_t bytes_;
  uint32_t signal_every_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
};

uint32_t depth_for(uint32_t bytes) {
  return std::clamp((4u << 20) / bytes, 4u, 512u);
}

json write_role(Channel& other, const net::Settings& settings, uint32_t bytes, double seconds) {
  EndpointSide side(settings, bytes, depth_for(bytes));
  Writer writer(side, connect_over(other, side), bytes);
  writer.run_for(seconds * kWarmUpShare);
  writer.finish();
  other.send("start");
  other.receive();
  const uint64_t bytes_before = writer.completed_bytes();
  const double cpu_before = cpu_seconds();
  const auto start = SteadyClock::now();
  writer.run_for(seconds);
  writer.finish();
  const double took = seconds_since(start);
  const double cpu = cpu_seconds() - cpu_before;
  other.send("stop");
  other.receive();
  return {{"bytes", writer.completed_bytes() - bytes_before}, {"seconds", took}, {"cpu_s", cpu}};
}

json target_role(Channel& other, const net::Settings& settings, uint32_t bytes) {
  EndpointSide side(settings, bytes, depth_for(bytes));
  connect_over(other, side);
  other.receive();
  const double cpu_before = cpu_seconds();
  other.send("go");
  other.receive();
  const double cpu = cpu_seconds() - cpu_before;
  other.send("done");
  return {{"cpu_s", cpu}};
}

constexpr uint64_t kStop = ~uint64_t{0};
constexpr uint64_t kArrivalOffset = 64;  // the cache line after the one that is sent from

// The word that the other side writes to.
uint64_t arrived(EndpointSide& side) {
  auto* word = reinterpret_cast<uint64_t*>(side.buffer().data() + kArrivalOffset);
  return std::atomic_ref<uint64_t>(*word).load(std::memory_order_acquire);
}

// Looks at the memory and polls the completion queue in turn, until something new is there.
uint64_t spin_for_change(EndpointSide& side, uint64_t from) {
  std::array<Wc, 16> wcs;
  while (true) {
    if (const uint64_t value = arrived(side); value != from) return value;
    side.poll(wcs);
  }
}

void send_word(EndpointSide& side, const RemoteEnd& remote, uint64_t value) {
  std::memcpy(side.buffer().data(), &value, sizeof value);
  side.post_write(remote, sizeof value, true, kArrivalOffset);
}

constexpr size_t kPingBuffer = 4096;
constexpr uint32_t kPingDepth = 64;

json ping_role(Channel& other, const net::Settings& settings, double seconds) {
  EndpointSide side(settings, kPingBuffer, kPingDepth);
  const RemoteEnd remote = connect_over(other, side);
  uint64_t round = 0;
  const auto bounce = [&] {
    send_word(side, remote, round + 1);
    round = spin_for_change(side, round);
  };
  for (const auto end = in_seconds(seconds * kWarmUpShare); SteadyClock::now() < end;) bounce();
  const uint64_t before = round;
  const auto start = SteadyClock::now();
  for (const auto end = in_seconds(seconds); SteadyClock::now() < end;) bounce();
  const double took = seconds_since(start);
  send_word(side, remote, kStop);
  other.receive();
  return {{"rounds", round - before}, {"seconds", took}};
}

json pong_role(Channel& other, const net::Settings& settings) {
  EndpointSide side(settings, kPingBuffer, kPingDepth);
  const RemoteEnd remote = connect_over(other, side);
  uint64_t round = 0;
  while ((round = spin_for_change(side, round)) != kStop) send_word(side, remote, round);
  other.send("stopped");
  return json::object();
}

double heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

// One process with many connections …
json hub_role(Channel& other, const net::Settings& settings, uint32_t connections) {
  EndpointSide side(settings, kPingBuffer, kPingDepth);
  json ends = json::array({to_json(side.local_end(0))});
  for (uint32_t i = 1; i < connections; ++i) {
    side.add_queue_pair();
    ends.push_back(to_json(side.local_end(i)));
  }
  other.send(ends);
  ends.clear();
  const json remotes = other.receive();
  const double before = heap_bytes();
  for (uint32_t i = 0; i < connections; ++i) side.connect(remote_end_from(remotes.at(i)), i);
  other.send("connected");
  other.receive();
  const double after = heap_bytes();
  const auto stats = side.endpoint().inspect([](const Engine& engine) { return engine.connection_stats(); });
  double accounted = 0;
  for (const ConnectionStats& one : stats) accounted += static_cast<double>(one.memory_bytes);
  other.send("measured");
  if (stats.empty()) throw RoleFailed("no connection was opened");
  const auto count = static_cast<double>(stats.size());
  return {
      {"heap", (after - before) / count}, {"accounted", accounted / count}, {"connections", stats.size()}};
}

// … and one that has as many endpoints, because one connection joins two endpoints.
json spokes_role(Channel& other, const net::Settings& settings, uint32_t connections) {
  std::vector<std::unique_ptr<EndpointSide>> sides;
  json ends = json::array();
  for (uint32_t i = 0; i < connections; ++i) {
    sides.push_back(std::make_unique<EndpointSide>(settings, kPingBuffer, kPingDepth));
    ends.push_back(to_json(sides.back()->local_end()));
  }
  const json remotes = other.receive();
  other.send(ends);
  other.receive();
  for (uint32_t i = 0; i < connections; ++i) {
    const RemoteEnd remote = remote_end_from(remotes.at(i));
    sides[i]->connect(remote);
    sides[i]->post_write(remote, sizeof(uint64_t), true);
    sides[i]->drain(1);
  }
  other.send("written");
  other.receive();
  return json::object();
}

json sampling_role(Channel& other, const net::Settings& settings, double seconds, double interval_s) {
  constexpr uint32_t kBytes = 64 << 10;
  EndpointSide side(settings, kBytes, depth_for(kBytes));
  const auto opened = SteadyClock::now();
  Writer writer(side, connect_over(other, side), kBytes);
  json samples = json::array();
  double last_s = seconds_since(opened);
  uint64_t last_bytes = 0;
  while (last_s < seconds) {
    writer.step();
    const double now_s = seconds_since(opened);
    if (now_s < last_s + interval_s) continue;
    const auto stats =
        side.endpoint().inspect([](const Engine& engine) { return engine.connection_stats(); });
    const uint64_t bytes = writer.completed_bytes();
    json sample = {{"at_s", now_s},
                   {"gbps", static_cast<double>(bytes - last_bytes) * 8 / 1e9 / (now_s - last_s)},
                   {"sent", json::array()},
                   {"state", json::array()}};
    for (const PathStats& path : stats.empty() ? std::vector<PathStats>{} : stats.front().paths) {
      sample["sent"].push_back(path.counters.sent);
      sample["state"].push_back(std::string(name_of(path.state)));
    }
    samples.push_back(std::move(sample));
    last_s = now_s;
    last_bytes = bytes;
  }
  writer.finish();
  other.send("stop");
  return samples;
}

json sampled_target_role(Channel& other, const net::Settings& settings) {
  EndpointSide side(settings, 64 << 10, kPingDepth);
  connect_over(other, side);
  other.receive();
  return json::object();
}

// The target is in good order: only what the writer sends is impaired.
net::Settings without_impairment(net::Settings settings) {
  [[maybe_unused]] const auto set = settings.set("impair", "", "measurement");
  return settings;
}

}  // namespace

Outcome<Flow> measure_writes(const net::Settings& settings, uint32_t bytes, double seconds) {
  const auto result = run_pair([&](Channel& other) { return write_role(other, settings, bytes, seconds); },
                               [&](Channel& other) { return target_role(other, settings, bytes); }, kLimit);
  if (!result) return tl::unexpected(result.error());
  const double moved = result->first.at("bytes");
  const double took = result->first.at("seconds");
  const double cpu = result->first.at("cpu_s").get<double>() + result->second.at("cpu_s").get<double>();
  return Flow{moved * 8 / 1e9 / took, cpu / (moved / 1e9)};
}

Outcome<double> measure_write_half_trip_us(const net::Settings& settings, double seconds) {
  const auto result = run_pair([&](Channel& other) { return ping_role(other, settings, seconds); },
                               [&](Channel& other) { return pong_role(other, settings); }, kLimit);
  if (!result) return tl::unexpected(result.error());
  return result->first.at("seconds").get<double>() / result->first.at("rounds").get<double>() / 2 * 1e6;
}

Outcome<IdleMemory> measure_idle_connections(const net::Settings& settings, uint32_t connections) {
  const auto result =
      run_pair([&](Channel& other) { return hub_role(other, settings, connections); },
               [&](Channel& other) { return spokes_role(other, settings, connections); }, kLimit);
  if (!result) return tl::unexpected(result.error());
  return IdleMemory{result->first.at("heap"), result->first.at("accounted"), result->first.at("connections")};
}

Outcome<std::vector<Sample>> sample_writes(const net::Settings& settings, double seconds, double interval_s) {
  const auto result = run_pair(
      [&](Channel& other) { return sampling_role(other, settings, seconds, interval_s); },
      [&](Channel& other) { return sampled_target_role(other, without_impairment(settings)); }, kLimit);
  if (!result) return tl::unexpected(result.error());
  std::vector<Sample> samples;
  for (const json& one : result->first) {
    samples.push_back({one.at("at_s"), one.at("gbps"), one.at("sent"), one.at("state")});
  }
  return samples;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace mroce::cli
