#include "cli/sim_faults.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "cli/sim_words.h"
#include "sim/words.h"

namespace mroce::cli {

const char* const kFaultHelp =
    R"(Faults (--fault, may be repeated)
  down LINKS [at T] [until T]                 loss LINKS SHARE [at T] [until T]
  rate LINKS SHARE [at T] [until T]           flap LINKS period T down T [at T] [until T]
  LINKS, both directions: "leaf 2 spine 1", "host 3", "host 3 port 0", "spine 4", "plane 1",
  "switch 7 switch 9"; kinds: host, leaf, aggregation, spine, core, border, switch
)";

namespace {

using sim::quoted;
using sim::SimTime;

struct Sentence {
  std::string_view verb;
  std::string links;
  std::optional<SimTime> at, until, period, down;
  std::optional<double> share;
};

bool names_links(std::string_view word) {
  constexpr std::array<std::string_view, 9> kKinds = {"host",   "leaf",   "aggregation", "spine", "core",
                                                      "border", "switch", "plane",       "port"};
  for (const std::string_view kind : kKinds) {
    if (kind == word) return true;
  }
  return false;
}

tl::unexpected<Failure> wrong(std::string_view sentence, std::string cause) {
  return failure(kUsage, fmt::format("--fault {}: {}", quoted(sentence), cause),
                 "write for example \"down leaf 2 spine 1 at 100us until 1ms\"; see mroce sim --help");
}

Outcome<Sentence> parse(std::string_view text) {
  Sentence out;
  const auto words = split_words(text, ' ');
  if (words.empty()) return wrong(text, "it says nothing");
  out.verb = words[0];
  size_t i = 1;
  for (; i + 1 < words.size() && names_links(words[i]); i += 2) {
    out.links += fmt::format("{}{} {}", out.links.empty() ? "" : " ", words[i], words[i + 1]);
  }
  for (; i < words.size(); ++i) {
    std::optional<SimTime>* const time = words[i] == "at"       ? &out.at
                                         : words[i] == "until"  ? &out.until
                                         : words[i] == "period" ? &out.period
                                         : words[i] == "down"   ? &out.down
                                                                : nullptr;
    if (time != nullptr) {
      if (*time) return wrong(text, fmt::format("{} is there twice", quoted(words[i])));
      if (i + 1 < words.size()) *time = parse_time(words[i + 1]);
      if (!*time) return wrong(text, fmt::format("no time behind {}", quoted(words[i])));
      ++i;
    } else if (const auto share = parse_share(words[i]); share && !out.share) {
      out.share = share;
    } else {
      return wrong(text, fmt::format("{} is not understood", quoted(words[i])));
    }
  }
  return out;
}

// Words that the verb has no use for, or lacks.
std::string misfit(const Sentence& s) {
  const bool flap = s.verb == "flap";
  const bool share = s.verb == "rate" || s.verb == "loss";
  if (!flap && !share && s.verb != "down") {
    return fmt::format("{} is not down, flap, rate or loss", quoted(s.verb));
  }
  if (flap != s.period.has_value() || flap != s.down.has_value()) {
    return flap ? "flap needs period and down" : fmt::format("{} has no period and no down", s.verb);
  }
  if (share != s.share.has_value()) {
    return share ? fmt::format("{} needs a share, as 10%", s.verb) : fmt::format("{} takes no share", s.verb);
  }
  if (s.verb == "rate" && *s.share == 0) return "a rate of nothing; say down";
  if (s.until && *s.until <= s.at.value_or(0)) return "it ends before it begins";
  return {};
}

}  // namespace

Outcome<void> add_fault(sim::FaultPlan& plan, const sim::Topology& topology, std::string_view text,
                        double usual_loss, SimTime limit) {
  const auto sentence = parse(text);
  if (!sentence) return tl::unexpected(sentence.error());
  if (std::string cause = misfit(*sentence); !cause.empty()) return wrong(text, std::move(cause));
  const auto links = sim::find_links(topology, sentence->links);
  if (!links) return wrong(text, links.error());
  const SimTime at = sentence->at.value_or(0);
  const SimTime until = sentence->until.value_or(sim::kEndOfTime);
  if (sentence->verb == "down") {
    sim::add_outage(plan, *links, at, until);
  } else if (sentence->verb == "flap") {
    const auto done =
        sim::add_flapping(plan, *links, at, std::min(until, limit), *sentence->period, *sentence->down);
    if (!done) return wrong(text, done.error() + "; say until when, or give a lower --limit");
  } else if (sentence->verb == "loss") {
    sim::add_loss(plan, *links, at, *sentence->share);
    if (sentence->until) sim::add_loss(plan, *links, until, usual_loss);
  } else {
    sim::add_rate(plan, *links, at, *sentence->share);
    if (sentence->until) sim::add_rate(plan, *links, until, 1);
  }
  return {};
}

}  // namespace mroce::cli
