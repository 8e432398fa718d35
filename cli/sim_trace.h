// What a simulation writes beside its report: --pcapng, --queues, --perfetto.
//
// Links are named as in faults, both directions ("leaf 2 spine 1", "host 3"), or one direction as reports
// name them ("leaf 2 -> spine 1").
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.h"
#include "sim/incidents.h"
#include "sim/link_samples.h"
#include "sim/packet_capture.h"
#include "sim/run.h"

namespace mroce::cli {

struct SimTraceOptions {
  std::string pcapng;
  std::vector<std::string> captures;  // links of the pcapng
  uint32_t snap_bytes = 0;            // of a packet; 0: its headers
  std::string queues;
  std::string perfetto;
  std::vector<std::string> watches;  // links of the others, or how many
  std::string sample;                // interval; empty: a microsecond

  bool any() const { return !pcapng.empty() || !queues.empty() || !perfetto.empty(); }
};

extern const char* const kTraceHelp;

// Options that need others. Before anything is read.
Outcome<void> check_traces(const SimTraceOptions& options);

class SimTraces final : public sim::TraceSink {
 public:
  // Opens the files, so that what cannot be written is known before the run. The topology outlives this.
  static Outcome<std::unique_ptr<SimTraces>> open(const SimTraceOptions& options,
                                                  const sim::Topology& topology, sim::WireProtocol protocol);

  sim::TraceOptions run_options();
  // After the run. `about`: a JSON object for the trace-event file.
  Outcome<void> write(std::span<const sim::Flow> flows, const std::string& about);
  // What was written, a line for each file; what is missing in it, a sentence each.
  const std::vector<std::string>& written() const { return written_; }
  const std::vector<std::string>& notices() const { return notices_; }

  void on_packet(const sim::TracedPacket& packet, std::span<const std::byte> header) override;
  void on_incident(const sim::Incident& incident) override;
  sim::SimTime on_sample(sim::SimTime at, std::span<const sim::LinkSample> links) override;
  void on_end(sim::SimTime at, std::span<const uint64_t> peaks) override;

 private:
  explicit SimTraces(const SimTraceOptions& options, const sim::Topology& topology)
      : options_(options), topology_(topology) {}
  Outcome<void> open_capture(sim::WireProtocol protocol);
  Outcome<void> choose_links();
  Outcome<void> close_capture();
  Outcome<void> write_queues();
  Outcome<void> write_perfetto(std::span<const sim::Flow> flows, const std::string& about);
  void notice_limits(std::span<const sim::Flow> flows);

  SimTraceOptions options_;
  const sim::Topology& topology_;
  std::vector<uint32_t> captured_;
  std::optional<sim::PacketCapture> capture_;
  std::ofstream queues_;
  std::ofstream perfetto_;
  sim::SimTime interval_ = 0;  // as asked for
  std::optional<sim::LinkSamples> samples_;
  size_t busiest_ = 0;  // so many of the sampled links; 0: all
  sim::Incidents incidents_;
  std::vector<uint64_t> peaks_;
  std::vector<size_t> columns_;
  sim::SimTime end_ = 0;
  std::vector<std::string> written_;
  std::vector<std::string> notices_;
};

}  // namespace mroce::cli
