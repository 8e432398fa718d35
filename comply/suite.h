// Suite: the assertions, and running them against a target.
//
// An assertion has a name that stays (docs and scripts refer to it), the rule that it tests with a part of
// its own text, and a function that throws RuleBroken when the target does something else. Each runs against
// a fresh endpoint of the target, with a time limit of its own, so that none can disturb or stop the next.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comply/tester.h"

namespace mroce::comply {

enum class Level : uint8_t { kMust, kShould };
enum class Verdict : uint8_t { kPass, kFail, kSkip };
std::string_view name_of(Level level);
std::string_view name_of(Verdict verdict);

struct Assertion {
  std::string_view id;    // "5.3/duplicate-cpsn-placed-once": section and name
  std::string_view rule;  // "§5.3-2"
  Level level = Level::kMust;
  std::string_view sentence;  // the rule's own text, or an exact part of it
  std::vector<Feature> needs;
  std::function<void(Tester&)> test;
  // "5.3" of "5.3/…".
  std::string_view section() const { return id.substr(0, id.find('/')); }
};

struct AssertionResult {
  const Assertion* assertion = nullptr;
  Verdict verdict = Verdict::kSkip;
  std::string reason;          // why not a pass
  bool not_run = false;        // of a skip: the target or the tester cannot be used
  size_t received = 0;         // datagrams of the target
  std::deque<Packet> packets;  // of a failure, or of all if they are kept
  Time began{};                // of the target's time
  Nanos took{0};
};

// All assertions, in the order of the specification.
std::vector<Assertion> all_assertions();
void add_model(std::vector<Assertion>& out);        // section_02.cc
void add_packets(std::vector<Assertion>& out);      // section_03.cc
void add_checks(std::vector<Assertion>& out);       // section_03_checks.cc
void add_handshake(std::vector<Assertion>& out);    // section_04.cc
void add_endings(std::vector<Assertion>& out);      // section_04_end.cc
void add_existing(std::vector<Assertion>& out);     // section_04_exists.cc
void add_receiving(std::vector<Assertion>& out);    // section_05.cc
void add_sending(std::vector<Assertion>& out);      // section_05_sender.cc
void add_congestion(std::vector<Assertion>& out);   // section_06.cc
void add_paths(std::vector<Assertion>& out);        // section_07.cc
void add_streams(std::vector<Assertion>& out);      // section_08.cc
void add_credits(std::vector<Assertion>& out);      // section_08_credits.cc
void add_placement(std::vector<Assertion>& out);    // section_09.cc
void add_refusals(std::vector<Assertion>& out);     // section_09_refusals.cc
void add_requester(std::vector<Assertion>& out);    // section_09_requester.cc
void add_security(std::vector<Assertion>& out);     // section_10.cc
void add_mode2(std::vector<Assertion>& out);        // section_10_mode2.cc
void add_retry(std::vector<Assertion>& out);        // section_10_retry.cc
void add_key_updates(std::vector<Assertion>& out);  // section_10_update.cc

// Sections "5" or "5.3" (all below) and ids; with both empty, everything. Unknown ones select nothing.
std::vector<const Assertion*> select(const std::vector<Assertion>& all,
                                     const std::vector<std::string>& sections,
                                     const std::vector<std::string>& ids);

struct RunOptions {
  uint64_t seed = 1;
  bool keep_packets = false;           // also of what passed
  Nanos assertion_limit = seconds(8);  // of the target's time, if it is real
  Nanos run_limit = seconds(600);      // the same; what is left over is not run
  std::function<void(const AssertionResult&)> on_result;
};

AssertionResult run_assertion(const Assertion& assertion, Target& target, const RunOptions& options);
std::vector<AssertionResult> run(const std::vector<const Assertion*>& assertions, Target& target,
                                 const RunOptions& options);

struct Summary {
  size_t pass = 0, fail = 0, skip = 0;
  size_t must_fail = 0;  // of fail
  size_t not_run = 0;    // of skip
};
Summary summary_of(const std::vector<AssertionResult>& results);

// Rules of docs/spec by level, as tests/docs/spec_rules.py counts them (a test compares), and how many of
// them have at least one of these assertions.
inline constexpr size_t kMustRules = 437, kShouldRules = 136;
struct Coverage {
  size_t must = 0, should = 0;
  size_t virtual_time = 0;  // assertions that can never be run over sockets
};
Coverage coverage_of(const std::vector<const Assertion*>& assertions);

}  // namespace mroce::comply
