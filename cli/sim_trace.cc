#include "cli/sim_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/sim_words.h"
#include "cli/terminal.h"
#include "sim/faults.h"
#include "sim/perfetto.h"
#include "sim/words.h"

namespace mroce::cli {

const char* const kTraceHelp =
    R"(Traces; none of them changes the results
  --pcapng FILE --capture LINKS     packets on these links, for Wireshark: an interface for each
                                    direction; pauses are MAC control frames
  --snaplen BYTES                   headers, and payload (zeros) up to so many bytes a packet; 0
  --queues FILE                     queue, throughput and pauses of links, a line for each sample
  --perfetto FILE                   flows, the same counters, pauses, drops and ECN marks over time,
                                    for ui.perfetto.dev
  --watch LINKS|N                   links of --queues and the counters of --perfetto, or how many
                                    ports of switches, those with the longest queues; 8
  LINKS as in faults, both directions, or one: "leaf 2 -> spine 1"
)";

namespace {

using sim::quoted;

constexpr uint32_t kUsualLinks = 8;
constexpr const char* kLinkHint =
    "links are named \"leaf 2 spine 1\", \"host 3\", \"host 3 port 0\", \"spine 4\", \"plane 1\", \"switch 7 "
    "switch "
    "9\", or for one direction \"leaf 2 -> spine 1\"";

tl::unexpected<Failure> cannot_write(const std::string& path, int error) {
  return failure(kEnvironment, fmt::format("cannot write {}: {}", path, std::strerror(error)),
                 "name a file that you may write to");
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

// "leaf 2" of "leaf 2 plane 1".
bool begins_with_node(std::string_view text, const sim::Topology& topology, uint32_t node) {
  const uint32_t index = topology.is_host(node) ? node : topology.switch_of(node).index;
  const std::string name = fmt::format("{} {}", topology.node_kind(node), index);
  return text == name || text.starts_with(name + ' ');
}

Outcome<std::vector<uint32_t>> links_named(const char* flag, const sim::Topology& topology,
                                           const std::string& text) {
  const size_t arrow = text.find("->");
  const std::string from = arrow == std::string::npos ? "" : trimmed(text.substr(0, arrow));
  const std::string both = arrow == std::string::npos ? text : from + ' ' + trimmed(text.substr(arrow + 2));
  auto links = sim::find_links(topology, both);
  if (!links) return failure(kUsage, fmt::format("{} {}: {}", flag, quoted(text), links.error()), kLinkHint);
  if (arrow == std::string::npos) return *links;
  std::erase_if(*links,
                [&](uint32_t id) { return !begins_with_node(from, topology, topology.links[id].from); });
  if (links->empty()) {
    return failure(kUsage, fmt::format("{} {}: no link leads there", flag, quoted(text)), kLinkHint);
  }
  return *links;
}

// Of all names, each once, in the order of their numbers.
Outcome<std::vector<uint32_t>> links_of(const char* flag, const sim::Topology& topology,
                                        std::span<const std::string> names) {
  std::vector<uint32_t> all;
  for (const std::string& name : names) {
    const auto links = links_named(flag, topology, name);
    if (!links) return tl::unexpected(links.error());
    all.insert(all.end(), links->begin(), links->end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Outcome<void> open_file(std::ofstream& file, const std::string& path) {
  if (path.empty()) return {};
  file.open(path, std::ios::binary | std::ios::trunc);
  if (!file) return cannot_write(path, errno);
  return {};
}

std::string packets_on(uint64_t packets, size_t links) {
  return fmt::format("{} packets on {} link{}", grouped(packets), links, links == 1 ? "" : "s");
}

}  // namespace

Outcome<void> check_traces(const SimTraceOptions& options) {
  if (options.pcapng.empty() != options.captures.empty()) {
    return failure(kUsage,
                   options.pcapng.empty() ? "--capture without --pcapng" : "--pcapng without --capture",
                   "give both: --pcapng FILE --capture \"host 3\"");
  }
  if (options.snap_bytes != 0 && options.pcapng.empty()) {
    return failure(kUsage, "--snaplen without --pcapng", "give --pcapng FILE --capture LINKS");
  }
  const bool sampling = !options.queues.empty() || !options.perfetto.empty();
  if (!sampling && (!options.watches.empty() || !options.sample.empty())) {
    return failure(kUsage, options.watches.empty() ? "--sample without a file" : "--watch without a file",
                   "give --queues FILE.csv or --perfetto FILE.json");
  }
  return {};
}

Outcome<std::unique_ptr<SimTraces>> SimTraces::open(const SimTraceOptions& options,
                                                    const sim::Topology& topology,
                                                    sim::WireProtocol protocol) {
  std::unique_ptr<SimTraces> traces(new SimTraces(options, topology));
  if (auto done = traces->choose_links(); !done) return tl::unexpected(done.error());
  if (auto done = traces->open_capture(protocol); !done) return tl::unexpected(done.error());
  if (auto done = open_file(traces->queues_, options.queues); !done) return tl::unexpected(done.error());
  if (auto done = open_file(traces->perfetto_, options.perfetto); !done) return tl::unexpected(done.error());
  return traces;
}

Outcome<void> SimTraces::choose_links() {
  const auto captured = links_of("--capture", topology_, options_.captures);
  if (!captured) return tl::unexpected(captured.error());
  captured_ = *captured;
  if (options_.queues.empty() && options_.perfetto.empty()) return {};
  const auto interval = parse_time(options_.sample.empty() ? "1us" : options_.sample);
  if (!interval || *interval == 0) {
    return failure(kUsage, fmt::format("--sample {}: not a time above 0", quoted(options_.sample)),
                   "write 1us or 500ns");
  }
  interval_ = *interval;
  const auto count = options_.watches.empty() ? std::optional<uint64_t>(kUsualLinks)
                                              : sim::parse_whole(options_.watches.front());
  if (count && options_.watches.size() <= 1) {
    if (*count == 0) return failure(kUsage, "--watch 0: no links", "give their number, or name them");
    busiest_ = *count;
    std::vector<uint32_t> ports;
    for (uint32_t id = topology_.hosts * topology_.planes; id < topology_.links.size(); ++id)
      ports.push_back(id);
    samples_.emplace(std::move(ports), interval_);
    return {};
  }
  auto watched = links_of("--watch", topology_, options_.watches);
  if (!watched) return tl::unexpected(watched.error());
  samples_.emplace(std::move(*watched), interval_);
  return {};
}

Outcome<void> SimTraces::open_capture(sim::WireProtocol protocol) {
  if (options_.pcapng.empty()) return {};
  auto capture =
      sim::PacketCapture::open(options_.pcapng, topology_, captured_, protocol, options_.snap_bytes);
  if (!capture) return failure(kEnvironment, capture.error(), "name a file that you may write to");
  capture_.emplace(std::move(*capture));
  return {};
}

sim::TraceOptions SimTraces::run_options() {
  sim::TraceOptions out;
  out.sink = this;
  out.captured = captured_;
  if (samples_) out.sampled = samples_->links();
  out.incidents = !options_.perfetto.empty();
  return out;
}

void SimTraces::on_packet(const sim::TracedPacket& packet, std::span<const std::byte> header) {
  capture_->add(packet, header);
}

void SimTraces::on_incident(const sim::Incident& incident) {
  incidents_.add(incident);
}

sim::SimTime SimTraces::on_sample(sim::SimTime, std::span<const sim::LinkSample> links) {
  return samples_->add(links);
}

void SimTraces::on_end(sim::SimTime at, std::span<const uint64_t> peaks) {
  end_ = at;
  incidents_.end(at);
  peaks_.assign(peaks.begin(), peaks.end());
}

Outcome<void> SimTraces::write(std::span<const sim::Flow> flows, const std::string& about) {
  if (samples_) columns_ = samples_->busiest(peaks_, busiest_ == 0 ? SIZE_MAX : busiest_);
  if (samples_ && busiest_ == 0) {
    columns_.resize(samples_->links().size());
    for (size_t i = 0; i < columns_.size(); ++i) columns_[i] = i;
  }
  if (samples_ && samples_->interval() != interval_) {
    notices_.push_back(
        fmt::format("samples are {} us apart, not {}: there would have been too many; watch fewer links",
                    static_cast<double>(samples_->interval()) / 1e6, static_cast<double>(interval_) / 1e6));
  }
  if (auto done = close_capture(); !done) return done;
  if (auto done = write_queues(); !done) return done;
  return write_perfetto(flows, about);
}

Outcome<void> SimTraces::close_capture() {
  if (!capture_) return {};
  if (!capture_->close()) return cannot_write(options_.pcapng, errno);
  written_.push_back(
      fmt::format("{}: {}", options_.pcapng, packets_on(capture_->written(), captured_.size())));
  if (capture_->left_out() != 0) {
    notices_.push_back(fmt::format("{} lacks the last {} packets: it has reached its maximum size",
                                   options_.pcapng, grouped(capture_->left_out())));
  }
  return {};
}

Outcome<void> SimTraces::write_queues() {
  if (options_.queues.empty()) return {};
  samples_->write_csv(queues_, topology_, columns_);
  queues_.close();
  if (!queues_) return cannot_write(options_.queues, errno);
  written_.push_back(
      fmt::format("{}: {} links at {} times", options_.queues, columns_.size(), grouped(samples_->rows())));
  return {};
}

Outcome<void> SimTraces::write_perfetto(std::span<const sim::Flow> flows, const std::string& about) {
  if (options_.perfetto.empty()) return {};
  sim::write_perfetto(perfetto_, {topology_, flows, *samples_, columns_, incidents_, end_, about});
  perfetto_.close();
  if (!perfetto_) return cannot_write(options_.perfetto, errno);
  written_.push_back(fmt::format("{}: {} links at {} times, {} pauses, {} drops, {} ECN marks",
                                 options_.perfetto, columns_.size(), grouped(samples_->rows()),
                                 grouped(incidents_.pauses().size()), grouped(incidents_.drops().size()),
                                 grouped(incidents_.marks().size())));
  notice_limits(flows);
  return {};
}

void SimTraces::notice_limits(std::span<const sim::Flow> flows) {
  const auto notice = [this](const char* what, uint64_t kept, uint64_t all) {
    if (kept == all) return;
    notices_.push_back(fmt::format("{} has the first {} of {} {} only", options_.perfetto, grouped(kept),
                                   grouped(all), what));
  };
  notice("pauses", incidents_.pauses().size(), incidents_.all_pauses());
  notice("drops", incidents_.drops().size(), incidents_.all_drops());
  notice("ECN marks", incidents_.marks().size(), incidents_.all_marks());
  notice("flows", std::min(flows.size(), sim::kMaxTracedFlows), flows.size());
}

}  // namespace mroce::cli
