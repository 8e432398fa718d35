#include "comply/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

namespace mroce::comply {
namespace {
// In virtual time an assertion may wait for the slowest timer of the protocol several times.
constexpr Nanos kVirtualLimit = seconds(120);
// So many assertions in a row that could not even start end the run: nobody is there.
constexpr size_t kHopeless = 3;

bool in_section(std::string_view section, std::string_view wanted) {
  return section == wanted ||
         (section.size() > wanted.size() && section.starts_with(wanted) && section[wanted.size()] == '.');
}

const Feature* missing_feature(const Assertion& assertion, const Target& target) {
  for (const Feature& need : assertion.needs) {
    if (!target.has(need)) return &need;
  }
  return nullptr;
}
}  // namespace

std::string_view name_of(Level level) {
  return level == Level::kMust ? "MUST" : "SHOULD";
}
std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::kPass ? "pass" : verdict == Verdict::kFail ? "fail" : "skip";
}

std::vector<Assertion> all_assertions() {
  std::vector<Assertion> out;
  add_model(out);
  add_packets(out);
  add_checks(out);
  add_handshake(out);
  add_existing(out);
  add_endings(out);
  add_receiving(out);
  add_sending(out);
  add_congestion(out);
  add_paths(out);
  add_streams(out);
  add_credits(out);
  add_placement(out);
  add_refusals(out);
  add_requester(out);
  add_security(out);
  add_mode2(out);
  add_retry(out);
  add_key_updates(out);
  const auto number = [](std::string_view section) {
    unsigned major = 0, minor = 0;
    unsigned* part = &major;
    for (const char c : section) {
      if (c == '.')
        part = &minor;
      else
        *part = *part * 10 + static_cast<unsigned>(c - '0');
    }
    return major * 1000 + minor;
  };
  std::stable_sort(out.begin(), out.end(), [&](const Assertion& a, const Assertion& b) {
    return number(a.section()) < number(b.section());
  });
  return out;
}

std::vector<const Assertion*> select(const std::vector<Assertion>& all,
                                     const std::vector<std::string>& sections,
                                     const std::vector<std::string>& ids) {
  std::vector<const Assertion*> out;
  for (const Assertion& each : all) {
    const bool wanted =
        (sections.empty() && ids.empty()) || std::find(ids.begin(), ids.end(), each.id) != ids.end() ||
        std::any_of(sections.begin(), sections.end(),
                    [&](const std::string& section) { return in_section(each.section(), section); });
    if (wanted) out.push_back(&each);
  }
  return out;
}

AssertionResult run_assertion(const Assertion& assertion, Target& target, const RunOptions& options) {
  AssertionResult result;
  result.assertion = &assertion;
  result.began = target.now();
  if (const Feature* missing = missing_feature(assertion, target)) {
    result.reason = fmt::format("the target has no {}", name_of(*missing));
    return result;
  }
  Tester tester(target, options.seed, target.virtual_time() ? kVirtualLimit : options.assertion_limit);
  try {
    assertion.test(tester);
    result.verdict = Verdict::kPass;
  } catch (const Unsupported& error) {
    result.reason = error.what();
  } catch (const NotRun& error) {
    result.not_run = true;
    result.reason = fmt::format("not run: {}", error.what());
  } catch (const RuleBroken& error) {
    result.verdict = Verdict::kFail;
    result.reason = error.what();
    if (const std::string slow = tester.slow_answers(); !slow.empty()) result.reason += "; " + slow;
  } catch (const TargetFailed& error) {
    result.verdict = Verdict::kFail;
    result.reason = fmt::format("the target: {}", error.what());
  } catch (const std::exception& error) {  // something that every right target sends did not come
    result.verdict = Verdict::kFail;
    result.reason = fmt::format("the tester gave up: {}", error.what());
  }
  result.took = target.now() - result.began;
  result.received = static_cast<size_t>(
      std::count_if(tester.log().begin(), tester.log().end(), [](const Packet& p) { return !p.sent; }));
  if (options.keep_packets || result.verdict == Verdict::kFail) result.packets = tester.log();
  return result;
}

std::vector<AssertionResult> run(const std::vector<const Assertion*>& assertions, Target& target,
                                 const RunOptions& options) {
  std::vector<AssertionResult> results;
  const Time end = target.virtual_time() ? kNever : target.now() + options.run_limit;
  size_t silent = 0;
  std::string why;
  for (const Assertion* assertion : assertions) {
    AssertionResult result;
    if (target.now() >= end || silent >= kHopeless) {
      result.assertion = assertion;
      result.not_run = true;
      result.reason = silent >= kHopeless ? why : "not run: the run took longer than its limit";
    } else {
      result = run_assertion(*assertion, target, options);
      // What passes because nothing came says nothing about whether anybody is there.
      if (result.received != 0) silent = 0;
      if (result.received == 0 && (result.verdict == Verdict::kFail || result.not_run)) ++silent;
      if (silent == kHopeless)
        why = result.not_run ? result.reason
                             : "not run: not one datagram of the target came in the assertions before";
    }
    if (options.on_result) options.on_result(result);
    results.push_back(std::move(result));
  }
  return results;
}

Coverage coverage_of(const std::vector<const Assertion*>& assertions) {
  Coverage out;
  std::set<std::string_view> must, should;
  for (const Assertion* each : assertions) {
    (each->level == Level::kMust ? must : should).insert(each->rule);
    const auto& needs = each->needs;
    if (std::find(needs.begin(), needs.end(), Feature::kVirtualTime) != needs.end()) ++out.virtual_time;
  }
  out.must = must.size();
  out.should = should.size();
  return out;
}

Summary summary_of(const std::vector<AssertionResult>& results) {
  Summary out;
  for (const AssertionResult& each : results) {
    if (each.verdict == Verdict::kPass) ++out.pass;
    if (each.verdict == Verdict::kSkip) ++out.skip;
    if (each.not_run) ++out.not_run;
    if (each.verdict != Verdict::kFail) continue;
    ++out.fail;
    if (each.assertion->level == Level::kMust) ++out.must_fail;
  }
  return out;
}

}  // namespace mroce::comply
