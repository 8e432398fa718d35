// The settings of an endpoint, one "name = value" a line as in the file that MROCE_CONFIG names, impairments
// included. What is accepted holds its own rule, and everything that the endpoint makes of it.
#include "net/settings.h"

#include "fuzz/input.h"
#include "net/impairment_clause.h"
#include "net/setting_rules.h"

using namespace mroce;

namespace {

void check_clauses(std::string_view text) {
  const auto clauses = net::parse_clauses(text);
  if (!clauses) return fuzz::require_sentence(clauses.error());
  for (const net::ImpairmentClause& clause : *clauses) {
    for (const double share :
         {clause.loss, clause.burst_enter, clause.reorder, clause.duplicate, clause.corrupt, clause.ce}) {
      fuzz::require(share >= 0 && share <= 1, "a probability", text);
    }
    fuzz::require(clause.burst_packets >= 1, "a burst", text);
    fuzz::require(clause.delay >= Nanos{0} && clause.jitter >= Nanos{0} && clause.jitter <= clause.delay,
                  "a delay", text);
    fuzz::require(clause.in || clause.out, "a clause for nothing", text);
    for (const net::TimeWindow& window : clause.down)
      fuzz::require(window.begin < window.end, "a window", text);
  }
}

void line(net::Settings& settings, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = net::trimmed(text.substr(0, equals));
  const std::string_view value = net::trimmed(text.substr(equals + 1));
  if (name == "impair") check_clauses(value);
  net::nearest_setting(name);
  const auto set = settings.set(name, value, "flag --x");
  if (!set) return fuzz::require_sentence(set.error());
  fuzz::require(!net::refusal(name, value), "accepted and refused", text);
  fuzz::require(settings.text(name) == value, "another value", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  net::Settings settings;
  std::string_view rest = fuzz::text_of(data, size);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    line(settings, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto valid = settings.validate();
  fuzz::require(valid.has_value(), "what was set is not valid", valid ? "" : valid.error());
  return 0;
}
