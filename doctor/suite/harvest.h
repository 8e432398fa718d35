// From what programs printed and snapshots hold to the figures of a test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/bundle.h"
#include "doctor/finding.h"
#include "doctor/rulebook.h"
#include "doctor/suite/plan.h"
#include "doctor/suite/results.h"
#include "doctor/suite/session.h"

namespace mroce::doctor {

struct TestBundles {
  TestKind kind = TestKind::kSingle;
  std::vector<Bundle> bundles;  // one for each host that took part
};

// Goodput (the sum of all clients), latency, and the payload that they moved, of one step of one repetition.
// False: nothing was printed that is understood.
bool harvest_step(const Step& step, const std::vector<EndOutput>& outputs, const Rulebook& book,
                  TestResult& into);
// Of nccl-tests, rccl-tests and OSU.
bool harvest_collective(std::string_view output, const Rulebook& book, TestResult& into);

// What moved between the snapshots of a test, and what the endpoints of mroce counted in it.
void harvest_counters(const TestBundles& test, const std::vector<EndOutput>& outputs,
                      const SuiteOptions& options, const Rulebook& book, TestResult& into);

// Of hosts and ports, without what changes by itself.
std::map<std::string, SettingsOfPlace> settings_of(const std::vector<Bundle>& bundles, const Rulebook& book);

// Devices with a link, and for each a GID that fits the host's address, as far as the snapshot says it. Under
// `mroce run` there is its one device, and every IPv4 address is a rail.
std::vector<Rail> rails_of(const Bundle& bundle, const SuiteHost& host, bool under_mroce,
                           const Rulebook& book);

// The tests as one run: of each host the first snapshot is the start, the last one the end, and those between
// are samples, as a counter's readings would not be in order otherwise.
void join_brackets(std::vector<TestBundles>& tests);

Diagnosis diagnose(const std::vector<TestBundles>& tests, const Rulebook& book);
TestVerdict verdict_of(const Diagnosis& diagnosis);

}  // namespace mroce::doctor
