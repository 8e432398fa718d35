// Carrying out one step of a test on its hosts.
//
// The servers of a step are started, and their hosts are asked for their table of listening sockets until
// every port is in it (the output of a server would not do, as programs keep it back when it is no terminal;
// and a connection to try would be taken for the client). Then all clients start at once. Whatever goes wrong
// ends every program of the step.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "doctor/bundle.h"
#include "doctor/suite/plan.h"
#include "doctor/suite/process.h"

namespace mroce::doctor {

struct Ran {
  int status = -1;  // -1: did not start or did not end in time
  std::string output, errors;
  std::string problem;  // a sentence, or empty
};

// What one end of a flow printed.
struct EndOutput {
  size_t host = 0;
  bool is_client = false;
  Words words;  // without launcher
  int status = 0;
  std::string text;
};

class Session {
 public:
  Session(const SuiteOptions& options, SuiteSignals& signals) : options_(options), signals_(signals) {}

  // One command on each of these hosts, side by side; the answers in the same order.
  std::vector<Ran> on_hosts(const std::vector<size_t>& hosts, const std::vector<Words>& commands,
                            uint32_t limit_s);

  // `mroce doctor snapshot` on each of these hosts. Where it cannot be had, the bundle says why.
  std::vector<Bundle> snapshots(const std::vector<size_t>& hosts, Phase phase);

  // What was printed goes to `out` in any case; an error is a sentence.
  tl::expected<void, std::string> run(const Step& step, std::vector<EndOutput>& out);

  bool interrupted() const { return signals_.received() != 0; }

 private:
  using Processes = std::deque<SuiteProcess>;
  using Deadline = SuiteClock::time_point;
  Words launched(size_t host, const Words& command, uint32_t seconds) const;
  tl::expected<void, std::string> start(Processes& all, size_t host, const Words& command);
  tl::expected<void, std::string> wait_for_listeners(const Step& step, Processes& servers, Deadline deadline);
  bool listens(size_t host, uint32_t port, Deadline deadline);
  tl::expected<void, std::string> wait_for_end(const Step& step, Processes& all, bool clients,
                                               Deadline deadline);
  Bundle bundle_of(size_t host, const Ran& ran, Phase phase) const;

  const SuiteOptions& options_;
  SuiteSignals& signals_;
};

// Is there a listener on this port in the text of /proc/net/tcp and tcp6?
bool has_listener(std::string_view tables, uint32_t port);

}  // namespace mroce::doctor
