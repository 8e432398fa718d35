// The suite: every test with a snapshot of its hosts before and after it, and what they say together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/rulebook.h"
#include "doctor/suite/harvest.h"
#include "doctor/suite/plan.h"
#include "doctor/suite/results.h"
#include "doctor/suite/session.h"

namespace mroce::doctor {

class Suite {
 public:
  using Say = std::function<void(const std::string&)>;  // what is going on, for a person
  Suite(const SuiteOptions& options, const Rulebook& book, SuiteSignals& signals, Say say)
      : options_(options), book_(book), session_(options, signals), say_(std::move(say)) {}

  // Tests that cannot run or that fail are in the results with the reason. After a signal there are fewer.
  SuiteResults run();
  const std::vector<TestBundles>& bundles() const { return bundles_; }
  const Diagnosis& diagnosis() const { return diagnosis_; }
  bool interrupted() const { return session_.interrupted(); }

 private:
  void look_around(SuiteResults& results);
  TestResult run_test(TestKind kind);
  std::string repeat_flows(TestKind kind, TestResult& into, std::vector<EndOutput>& outputs);
  std::string repeat_collective(TestResult& into, std::vector<EndOutput>& outputs);
  // The program to run, or in `why` the reason for none.
  std::string find_collective(std::string& why);
  void close(TestBundles& test, const std::vector<size_t>& hosts, const std::vector<EndOutput>& outputs);
  std::vector<size_t> hosts_of(TestKind kind) const;

  const SuiteOptions& options_;
  const Rulebook& book_;
  Session session_;
  Say say_;
  RailsOfHosts rails_;
  std::vector<TestBundles> bundles_;
  Diagnosis diagnosis_;
};

std::map<std::string, std::string> parameters_of(const SuiteOptions& options);
// Exact commands of the first repetition, one a line, without running any. Devices and GIDs that would be
// read from the hosts are DEVICE and GID.
std::string dry_run(const SuiteOptions& options);

}  // namespace mroce::doctor
