#include "sim/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ostream>
#include <queue>
#include <utility>
#include <vector>

#include "sim/time_text.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kDropThread = kClasses + 1;  // below it: threads of the classes
constexpr uint32_t kMarkThread = kClasses + 2;

constexpr std::array<const char*, kDropReasons> kReasons = {
#define MROCE_SIM_DROP(name, sentence) #name,
    MROCE_SIM_DROPS(MROCE_SIM_DROP)
#undef MROCE_SIM_DROP
};

// Names are those of nodes, links and counters of this program: nothing in them needs escaping.
class Writer {
 public:
  Writer(std::ostream& out, const PerfettoInput& input) : out_(out), input_(input) {}

  void write() {
    text_ = fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[", input_.other_data);
    name_links();
    write_counters();
    write_pauses();
    write_instants(input_.incidents.drops(), kDropThread);
    write_instants(input_.incidents.marks(), kMarkThread);
    write_flows();
    text_ += "\n]}\n";
    flush();
  }

 private:
  struct Place {  // of a slice
    uint32_t flow;
    uint32_t lane;
  };

  uint32_t host_process(uint32_t host) const { return 1 + host; }
  uint32_t link_process(uint32_t link) const { return 1 + input_.topology.hosts + link; }

  void begin(const char* phase, uint32_t process, uint32_t thread) {
    fmt::format_to(std::back_inserter(text_), "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", comma_, phase,
                   process, thread);
    comma_ = ",";
  }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void add_time(const char* key, SimTime time) { add(",\"{}\":{}", key, exact_us(time)); }
  void finish() {
    text_ += '}';
    if (text_.size() > (size_t{1} << 20)) flush();
  }
  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  void name_process(uint32_t process, const std::string& name, uint32_t place) {
    begin("M", process, 0);
    add(",\"name\":\"process_name\",\"args\":{{\"name\":\"{}\"}}", name);
    finish();
    begin("M", process, 0);
    add(",\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}", place);
    finish();
  }
  void name_thread(uint32_t process, uint32_t thread, const std::string& name) {
    begin("M", process, thread);
    add(",\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}", name);
    finish();
  }

  void name_links();
  void write_counters();
  void write_counter(size_t row, uint32_t process, const char* name, const char* unit, double value);
  void write_pauses();
  void write_instants(const std::vector<Incident>& incidents, uint32_t thread);
  void write_flows();
  void write_host(std::span<const Place> places);
  void write_flow(const Place& place);

  std::ostream& out_;
  const PerfettoInput& input_;
  std::string text_;
  const char* comma_ = "";
};

// Links come before hosts, in the order of their numbers.
void Writer::name_links() {
  std::vector<std::pair<uint32_t, uint32_t>> threads;  // link; 0 or a thread
  for (const size_t column : input_.columns) threads.emplace_back(input_.samples.links()[column], 0);
  for (const Incidents::Pause& pause : input_.incidents.pauses())
    threads.emplace_back(pause.link, 1 + pause.priority);
  for (const Incident& drop : input_.incidents.drops()) threads.emplace_back(drop.link, kDropThread);
  for (const Incident& mark : input_.incidents.marks()) threads.emplace_back(mark.link, kMarkThread);
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  uint32_t named = UINT32_MAX;
  for (const auto& [link, thread] : threads) {
    if (link != named) name_process(link_process(link), input_.topology.link_name(link), link);
    named = link;
    if (thread == 0) continue;
    name_thread(link_process(link), thread,
                thread == kDropThread   ? "drops"
                : thread == kMarkThread ? "ECN marks"
                                        : fmt::format("class {} paused", thread - 1));
  }
}

// A value is written where it changes.
void Writer::write_counters() {
  const LinkSamples& samples = input_.samples;
  for (const size_t column : input_.columns) {
    const uint32_t process = link_process(samples.links()[column]);
    uint32_t queue = UINT32_MAX;
    double rate = -1;
    for (size_t row = 0; row < samples.rows(); ++row) {
      const uint32_t bytes = samples.sample(row, column).queue_bytes;
      if (bytes != queue) write_counter(row, process, "queue", "bytes", bytes);
      queue = bytes;
      // The value of an interval stands at its beginning, as the viewer draws steps.
      const double next = row + 1 < samples.rows() ? samples.gbps(row + 1, column) : 0;
      if (next != rate) write_counter(row, process, "throughput", "Gbit/s", next);
      rate = next;
    }
  }
}

void Writer::write_counter(size_t row, uint32_t process, const char* name, const char* unit, double value) {
  begin("C", process, 0);
  add_time("ts", input_.samples.at(row));
  add(",\"name\":\"{}\",\"args\":{{\"{}\":{:.10g}}}", name, unit, value);
  finish();
}

void Writer::write_pauses() {
  for (const Incidents::Pause& pause : input_.incidents.pauses()) {
    begin("X", link_process(pause.link), 1U + pause.priority);
    add_time("ts", pause.from);
    add_time("dur", pause.to - pause.from);
    add(",\"name\":\"paused\",\"cat\":\"pause\"");
    finish();
  }
}

void Writer::write_instants(const std::vector<Incident>& incidents, uint32_t thread) {
  for (const Incident& incident : incidents) {
    begin("i", link_process(incident.link), thread);
    add_time("ts", incident.at);
    const char* const name = incident.kind == Incident::Kind::kMark   ? "marked"
                             : incident.kind == Incident::Kind::kLost ? "link"
                             : incident.kind == Incident::Kind::kRefused
                                 ? "receiver"
                                 : kReasons[static_cast<size_t>(incident.reason)];
    add(",\"s\":\"t\",\"name\":\"{}\",\"cat\":\"{}\",\"args\":{{\"source\":{},\"destination\":{},\"bytes\":{}"
        ","
        "\"class\":{}",
        name, thread == kMarkThread ? "mark" : "drop", incident.source, incident.destination, incident.bytes,
        incident.priority);
    if (incident.flow != kNoFlow) add(",\"flow\":{}", input_.flows[incident.flow].id);
    text_ += '}';
    finish();
  }
}

void Writer::write_flows() {
  std::vector<Place> places;
  for (uint32_t i = 0; i < input_.flows.size() && places.size() < kMaxTracedFlows; ++i) {
    if (input_.flows[i].started != kEndOfTime) places.push_back({i, 0});
  }
  const auto by_host = [this](const Place& a, const Place& b) {
    const Flow& x = input_.flows[a.flow];
    const Flow& y = input_.flows[b.flow];
    if (x.source != y.source) return x.source < y.source;
    return x.started != y.started ? x.started < y.started : a.flow < b.flow;
  };
  std::sort(places.begin(), places.end(), by_host);
  for (size_t first = 0; first < places.size();) {
    const uint32_t host = input_.flows[places[first].flow].source;
    size_t last = first;
    for (; last < places.size() && input_.flows[places[last].flow].source == host; ++last) {
    }
    // Slices of a thread must not overlap: the first thread that is free again, or a new one.
    using Busy = std::pair<SimTime, uint32_t>;  // until; lane
    std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
    for (Place& place : std::span(places).subspan(first, last - first)) {
      const Flow& flow = input_.flows[place.flow];
      place.lane = static_cast<uint32_t>(busy.size());
      if (!busy.empty() && busy.top().first <= flow.started) {
        place.lane = busy.top().second;
        busy.pop();
      }
      busy.emplace(std::min(flow.finished, input_.end), place.lane);
    }
    write_host(std::span(places).subspan(first, last - first));
    first = last;
  }
}

void Writer::write_host(std::span<const Place> places) {
  const uint32_t host = input_.flows[places.front().flow].source;
  const auto after_links = static_cast<uint32_t>(input_.topology.links.size());
  name_process(host_process(host), input_.topology.node_name(host), after_links + host);
  uint32_t lanes = 0;
  for (const Place& place : places) lanes = std::max(lanes, place.lane + 1);
  for (uint32_t lane = 0; lane < lanes; ++lane) name_thread(host_process(host), lane + 1, "flows");
  for (const Place& place : places) write_flow(place);
}

void Writer::write_flow(const Place& place) {
  const Flow& flow = input_.flows[place.flow];
  const bool finished = flow.finished != kEndOfTime;
  begin("X", host_process(flow.source), place.lane + 1);
  add_time("ts", flow.started);
  add_time("dur", (finished ? flow.finished : input_.end) - flow.started);
  add(",\"name\":\"flow {} to host {}\",\"cat\":\"flow\",\"args\":{{\"bytes\":{},\"finished\":{}", flow.id,
      flow.destination, flow.bytes, finished);
  if (flow.received != kEndOfTime) add_time("received_us", flow.received - flow.started);
  text_ += '}';
  finish();
}

}  // namespace

void write_perfetto(std::ostream& out, const PerfettoInput& input) {
  Writer(out, input).write();
}

}  // namespace mroce::sim
