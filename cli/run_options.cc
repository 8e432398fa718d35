#include "cli/run_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "cli/terminal.h"
#include "core/base/text.h"
#include "net/impairment_clause.h"

namespace mroce::cli {
namespace {

constexpr const char* kImpairText =
    R"(Impairments (--impair): CLAUSE;CLAUSE…, each a list of these, separated by commas
  loss=P           drop at random; P is 1% or 0.01
  burst=P:N        losses in a row: with probability P the next N packets (on average)
  reorder=P:T      hold a packet for the time T (ns, us, ms, s) and let others overtake it
  duplicate=P      send twice
  corrupt=P        flip one bit
  delay=T[:T]      delay by the first time, give or take the second
  rate=R[,queue=B] a link of R bit/s (K, M, G) with a queue of B bytes
  ce=P             mark Congestion Experienced
  down=T-[T]       nothing passes between these times after the start
  to which packets and when the clause applies; default: all that are sent, always
  path=N           those of path N of each connection, 0 to 31
  plane=N          those of the local address with GID index N, as mroce info lists them (not
                   the number of a plane in --stats, but the column GID there)
  dir=out|in|both  those that the program sends, receives, or both
  during=T-[T]     between these times after the start
  seed=N           of all random choices

)";

constexpr const char* kFooter =
    R"(The program follows "--". Its exit status becomes ours; 127: not found, 126: not executable.

Examples:
  mroce run -- ibv_devinfo
  mroce run --loss 1 --stats -- ib_write_bw -d mroce0 -x 1 -s 1M        (then a client with the host)
  mroce run --impair 'burst=0.1%:20;down=1s-2s,path=1' --json out.json -- ibv_rc_pingpong -g 1)";

std::string settings_text() {
  Table table({"Settings (--set)", "default", ""});
  for (const net::Setting& setting : net::all_settings()) {
    table.add(
        {"  " + std::string(setting.name), std::string(setting.default_text), std::string(setting.sentence)});
  }
  return table.text(1) + "\n";
}

// "1" and "1%" are the same here; the clause has the sign.
Outcome<std::string> loss_clause(const std::string& loss) {
  const std::string_view number =
      std::string_view(loss).substr(0, loss.size() - (loss.ends_with('%') ? 1 : 0));
  std::string clause = fmt::format("loss={}%", number);
  const bool digits = !number.empty() && number.find_first_not_of("0123456789.") == std::string_view::npos;
  if (digits && net::parse_clauses(clause)) return clause;
  return failure(kUsage, fmt::format("--loss {}: not a percentage from 0 to 100", printable(loss, 40)),
                 "write --loss 1 or --loss 0.1%");
}

}  // namespace

void add_run_options(CLI::App& run, RunOptions& options) {
  run.add_option("--loss", options.loss,
                 "drop so many percent of the packets that the program sends: 1 or 1%")
      ->type_name("PERCENT");
  run.add_option("--impair", options.impair, "a bad network, on purpose: see below")->type_name("SPEC");
  run.add_option("--paths", options.paths, "paths of one connection in each direction")->type_name("N");
  run.add_option("--planes", options.planes, "pairs of addresses that one connection may use")
      ->type_name("N");
  run.add_flag("--stats", options.stats, "print a table of paths and connections when the program has ended");
  run.add_option("--json", options.json_file,
                 "write the statistics of all processes as JSON to this one file (so %p means nothing in its "
                 "name); - is standard output")
      ->type_name("FILE");
  run.add_option("--trace", options.trace_file, "write all packets to this file; %p is the process id")
      ->type_name("FILE.pcapng");
  run.add_option("--set", options.sets, "any other setting: see below; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  run.add_flag("--no-view", options.no_view, "leave /sys/class/infiniband and /dev/infiniband as they are");
  run.footer(kImpairText + settings_text() + kFooter);
}

Outcome<std::vector<Override>> overrides_of(const RunOptions& options) {
  std::vector<Override> overrides;
  const auto add = [&](std::string_view setting, const std::string& value, std::string_view flag) {
    if (!value.empty()) overrides.push_back({std::string(setting), value, fmt::format("flag {}", flag)});
  };
  add("paths", options.paths, "--paths");
  add("planes", options.planes, "--planes");
  std::string impair = options.impair;
  if (!options.loss.empty()) {
    const auto loss = loss_clause(options.loss);
    if (!loss) return tl::unexpected(loss.error());
    impair += (impair.empty() ? "" : ";") + *loss;
  }
  add("impair", impair, options.impair.empty() ? "--loss" : "--impair");
  // The program may change its folder before it opens the device.
  if (!options.trace_file.empty())
    add("trace", std::filesystem::absolute(options.trace_file).string(), "--trace");
  for (const std::string& pair : options.sets) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return failure(kUsage,
                     fmt::format("--set {}: {}", printable(pair, 100), equals == 0 ? "no name" : "no '='"),
                     "write --set NAME=VALUE");
    }
    overrides.push_back(
        {pair.substr(0, equals), pair.substr(equals + 1), "flag --set " + pair.substr(0, equals)});
  }
  return overrides;
}

}  // namespace mroce::cli
