// The option words of `mroce sim`, one a line: "fault ..." and "set ..." as they stand behind --fault and
// --set, "transport NAME" for the settings that follow.
#include "cli/sim_words.h"

#include "cli/sim_fabric.h"
#include "cli/sim_faults.h"
#include "cli/sim_transport.h"
#include "fuzz/input.h"
#include "sim/leaf_spine.h"

using namespace mroce;

namespace {

constexpr sim::SimTime kLimit = sim::SimTime{1'000'000'000'000};  // a second, the default of the command

template <class T>
bool accepted(const cli::Outcome<T>& outcome) {
  if (!outcome) fuzz::require_sentence(outcome.error().cause);
  return outcome.has_value();
}

class Session {
 public:
  void line(std::string_view text) {
    const size_t blank = std::min(text.find(' '), text.size());
    const std::string_view verb = text.substr(0, blank);
    const std::string_view rest = text.substr(std::min(blank + 1, text.size()));
    if (verb == "transport") {
      if (auto named = cli::transport_named(rest); accepted(named)) transport_ = *named;
    } else if (verb == "set") {
      accepted(cli::set_any(transport_, settings_, rest));
    } else if (verb == "fault") {
      accepted(cli::add_fault(faults_, topology_, rest, 0.01, kLimit));
    } else {
      list(text);
    }
  }

  void end() {
    sim::RunOptions options;
    accepted(cli::set_fabric(options, transport_, settings_, topology_));
    fuzz::require_sentence(cli::fabric_text(options.fabric));
    const sim::FaultPlan plan = sim::finish_plan(faults_, settings_.reroute_after);
    fuzz::require(std::ranges::is_sorted(plan, {}, &sim::Fault::at), "a plan that is not sorted");
    for (const sim::Fault& fault : plan) {
      fuzz::require(fault.at >= 0 && fault.link < topology_.links.size(), "a fault of nothing");
    }
  }

 private:
  // As --fabric and --load have them.
  static void list(std::string_view text) {
    auto list = cli::NamedList::parse("--load", text);
    if (!accepted(list)) return;
    uint64_t size = 0, rate = 0;
    uint32_t count = 2;
    sim::SimTime time = 0;
    list->size("size", size);
    list->rate("rate", rate);
    list->time("delay", time);
    list->count("hosts", count, 2, 64);
    accepted(list->end());
    fuzz::require(count >= 2 && count <= 64 && time >= 0, "a value out of its bounds");
  }

  sim::Topology topology_ = sim::make_leaf_spine({}).value();
  cli::SimTransport transport_ = cli::transport_named("mroce").value();
  cli::FabricSettings settings_;
  sim::FaultPlan faults_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Session session;
  for (const std::string_view line : cli::split_words(fuzz::text_of(data, size), '\n')) session.line(line);
  session.end();
  return 0;
}
