// What is traced is what happened, changes nothing, and is the same on any number of threads.
#include "sim/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/random_scenario.h"

namespace mroce::sim {
namespace {

class Recorder final : public TraceSink {
 public:
  explicit Recorder(SimTime interval) : interval_(interval) {}

  void on_packet(const TracedPacket& traced, std::span<const std::byte> header) override {
    const Packet& p = traced.packet;
    EXPECT_GE(traced.at, last_packet_);
    last_packet_ = traced.at;
    uint32_t sum = 0;
    for (const std::byte b : header) sum = sum * 31 + std::to_integer<uint32_t>(b);
    packet_text += fmt::format("packet {} {} {} {} {} {} {} {} {}\n", traced.at, traced.link, traced.lost,
                               p.source, p.destination, p.bytes, static_cast<int>(p.ecn), p.hops, sum);
    const bool pause = p.kind == PacketKind::kPause;
    ++(pause ? (traced.lost ? lost_pauses : pauses) : traced.lost ? lost : arrived);
  }
  void on_incident(const Incident& incident) override {
    EXPECT_GE(incident.at, last_incident_);
    last_incident_ = incident.at;
    incident_text += fmt::format("incident {} {} {} {} {} {} {}\n", incident.at, incident.link,
                                 static_cast<int>(incident.kind), static_cast<int>(incident.reason),
                                 incident.priority, incident.source, incident.destination);
    ++incidents[incident.kind];
    const auto key = std::pair(incident.link, incident.priority);
    if (incident.kind == Incident::Kind::kPause) {
      EXPECT_TRUE(paused.emplace(key, incident.at).second) << "paused twice";
    } else if (incident.kind == Incident::Kind::kResume) {
      ASSERT_EQ(paused.count(key), 1U) << "resumed though not paused";
      pause_times[incident.link] += incident.at - paused[key];
      paused.erase(key);
    }
  }
  SimTime on_sample(SimTime at, std::span<const LinkSample> links) override {
    sample_text += fmt::format("sample {}", at);
    for (const LinkSample& s : links)
      sample_text += fmt::format(" {}/{}/{}", s.queue_bytes, s.arrived_bytes, s.paused_time);
    sample_text += '\n';
    samples.emplace_back(at, std::vector(links.begin(), links.end()));
    return at + interval_;
  }
  void on_end(SimTime at, std::span<const uint64_t> peaks) override {
    end = at;
    for (const auto& [key, since] : paused) pause_times[key.first] += at - since;
    this->peaks.assign(peaks.begin(), peaks.end());
  }

  std::string text() const { return packet_text + incident_text + sample_text; }

  std::string packet_text, incident_text, sample_text;
  uint64_t arrived = 0, lost = 0, pauses = 0, lost_pauses = 0;
  std::map<Incident::Kind, uint64_t> incidents;
  std::map<std::pair<uint32_t, uint8_t>, SimTime> paused;
  std::map<uint32_t, SimTime> pause_times;
  std::vector<std::pair<SimTime, std::vector<LinkSample>>> samples;
  std::vector<uint64_t> peaks;
  SimTime end = 0;

 private:
  SimTime interval_;
  SimTime last_packet_ = 0;
  SimTime last_incident_ = 0;
};

// Everything that can be traced.
TraceOptions trace_all(const Topology& topology, TraceSink& sink) {
  TraceOptions trace;
  trace.sink = &sink;
  trace.incidents = true;
  for (uint32_t id = 0; id < topology.links.size(); ++id) {
    trace.captured.push_back(id);
    trace.sampled.push_back(id);
  }
  return trace;
}

RunResult run_of(Scenario& s) {
  return test_run(s.topology, s.options, s.flows, s.transport, nullptr, s.faults);
}

// Empty, or the first line that differs in both texts.
std::string first_difference(const std::string& a, const std::string& b) {
  if (a == b) return {};
  const auto at =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const size_t begin = at == 0 ? 0 : a.rfind('\n', at - 1) + 1;
  return a.substr(begin, a.find('\n', at) - begin) + " | " + b.substr(begin, b.find('\n', at) - begin);
}

TEST(Trace, changes_nothing_and_is_the_same_on_1_2_and_4_threads) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario s = random_scenario(seed);
    const RunResult untraced = run_of(s);
    const std::string wanted = fingerprint(untraced, s.flows);
    std::string first;
    for (const uint32_t threads : {1U, 2U, 4U}) {
      Recorder recorder(777'777);
      s.options.threads = threads;
      s.options.trace = trace_all(s.topology, recorder);
      const RunResult result = run_of(s);
      ASSERT_EQ(fingerprint(result, s.flows), wanted) << "seed " << seed << ", " << threads << " threads";
      EXPECT_EQ(recorder.end, result.simulated);
      if (first.empty()) first = recorder.text();
      ASSERT_EQ(first_difference(recorder.text(), first), "")
          << "seed " << seed << ", " << threads << " threads";
    }
  }
}

TEST(Trace, agrees_with_the_counters_of_the_run) {
  uint64_t marks = 0, drops = 0, refused = 0, lost = 0, pauses = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario s = random_scenario(seed);
    Recorder recorder(microseconds(1));
    s.options.trace = trace_all(s.topology, recorder);
    const RunResult result = run_of(s);
    EXPECT_EQ(recorder.arrived, result.fabric.hops);
    EXPECT_EQ(recorder.lost, result.fabric.lost);
    EXPECT_EQ(recorder.pauses, result.fabric.pause_frames);
    EXPECT_EQ(recorder.incidents[Incident::Kind::kMark], result.fabric.marks);
    EXPECT_EQ(recorder.incidents[Incident::Kind::kDrop], result.fabric.switch_drops);
    EXPECT_EQ(recorder.incidents[Incident::Kind::kRefused], result.fabric.receiver_drops);
    EXPECT_EQ(recorder.incidents[Incident::Kind::kLost], result.fabric.lost);
    SimTime paused = 0;  // of switches, as the result has it
    for (const auto& [link, time] : recorder.pause_times) {
      paused += s.topology.is_host(s.topology.links[link].from) ? 0 : time;
    }
    EXPECT_EQ(paused, result.paused_time) << "seed " << seed;
    marks += result.fabric.marks;
    drops += result.fabric.switch_drops;
    refused += result.fabric.receiver_drops;
    lost += result.fabric.lost;
    pauses += result.fabric.pause_frames;
  }
  EXPECT_GT(marks, 100U);
  EXPECT_GT(drops, 100U);
  EXPECT_GT(refused, 10U);
  EXPECT_GT(lost, 100U);
  EXPECT_GT(pauses, 50U);
}

TEST(Trace, samples_have_what_the_closed_form_says_at_each_time_of_the_run) {
  LeafSpineSpec spec;
  spec.leaves = 2;
  spec.hosts_per_leaf = 1;
  spec.spines = 1;
  const Topology topology = make_leaf_spine(spec).value();
  // 4160 bytes at 400 Gbit/s are sent in 83.2 ns and arrive a microsecond later.
  std::vector<Flow> flows{make_flow(0, 0, 1, 2 * 4096)};
  Recorder recorder(nanos(50));
  RunOptions options = test_options();
  options.trace.sink = &recorder;
  options.trace.sampled = {0};
  const RunResult result = test_run(topology, options, flows);
  ASSERT_TRUE(result.complete);
  const auto& samples = recorder.samples;
  EXPECT_EQ(samples.size(), static_cast<size_t>(result.simulated / nanos(50)) + 1);
  const std::vector<uint32_t> queue{0, 8320, 4160, 4160, 0, 0};  // at 0, 50, 100, 150, 200, 250 ns
  for (size_t i = 0; i < queue.size(); ++i) EXPECT_EQ(samples[i].second[0].queue_bytes, queue[i]) << i;
  EXPECT_EQ(samples[21].second[0].arrived_bytes, 0U);     // 1050 ns
  EXPECT_EQ(samples[22].second[0].arrived_bytes, 4160U);  // 1100 ns; the first arrived at 1083.2
  EXPECT_EQ(samples[24].second[0].arrived_bytes, 8320U);
  EXPECT_EQ(recorder.peaks, std::vector<uint64_t>{8320});
}

TEST(Trace, without_a_sink_nothing_is_traced) {
  Scenario s = random_scenario(2);
  s.options.trace.captured = {0};
  s.options.trace.sampled = {0};
  s.options.trace.incidents = true;
  Scenario plain = random_scenario(2);
  EXPECT_EQ(fingerprint(run_of(s), s.flows), fingerprint(run_of(plain), plain.flows));
}

}  // namespace
}  // namespace mroce::sim
